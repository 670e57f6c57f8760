"""What a hostile AMQP client sends: every method, with the largest, deepest and most arguments."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue, Tx
from tests.amqp_frontend.session.playbook import make, publishes

from arneb_amqp.wire.constants import (
    FRAME_BYTES_MAX_DEFAULT,
    PROTOCOL_HEADER,
    TABLE_DEPTH_MAX,
    ChannelId,
)
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.tables import Field, array, long, longstr, table

CHANNELS: Final = 50
LARGE_QUEUE: Final = "attack-large"
"""A queue with messages of one MiB."""

HEARTBEAT: Final = b"\x08\0\0\0\0\0\0\xce"
FIRST_READ: Final = 16_000
"""The number of heartbeats that fill the broker's first read."""

Theme = Callable[[random.Random], bytes]


def frame(kind: type[Command], channel: int = 1, **fields: Any) -> bytes:
    return encode_method(ChannelId(channel), make(kind, **fields))


def opening() -> bytes:
    """The whole handshake and some channels, sent without reading the broker's answers."""
    channels = b"".join(frame(Channel.Open, each) for each in range(1, CHANNELS + 1))
    return b"".join(
        (
            PROTOCOL_HEADER,
            frame(Connection.StartOk, 0, client_properties={"long": longstr(b"x" * 3000)},
                  mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US"),
            frame(Connection.TuneOk, 0, channel_max=2047, frame_max=FRAME_BYTES_MAX_DEFAULT,
                  heartbeat=0),
            frame(Connection.Open, 0, virtual_host="/"),
            channels,
            # Frames must be small until the broker has read the negotiated frame size.
            HEARTBEAT * FIRST_READ,
        )
    )  # fmt: skip


def deep(levels: int) -> Field:
    """Tables and arrays nested this deep."""
    value: Field = longstr(b"x" * 100)
    for level in range(levels):
        value = table({"k": value}) if level % 2 else array([value])
    return value


def wide(count: int) -> dict[str, Field]:
    return {f"header-{number}": longstr(b"v" * 20) for number in range(count)}


def some_channel(chance: random.Random) -> int:
    return chance.randrange(1, CHANNELS + 1)


def gets(chance: random.Random) -> bytes:
    """Gets large messages without acknowledging them, and requeues them."""
    found = b""
    for _ in range(200):
        channel = some_channel(chance)
        found += frame(Basic.Get, channel, queue=LARGE_QUEUE, no_ack=False) * 10
        found += frame(Basic.Recover, channel, requeue=True)
    return found


def consumers(chance: random.Random) -> bytes:
    """Starts many consumers of a large backlog, with every kind of prefetch, and cancels them."""
    found = b""
    for number in range(500):
        channel, tag = some_channel(chance), f"c{number}-{chance.random()}"
        found += frame(Basic.Qos, channel, prefetch_count=chance.choice((0, 1, 65535)),
                       global_=chance.random() < 0.5)  # fmt: skip
        found += frame(Basic.Consume, channel, queue=LARGE_QUEUE, consumer_tag=tag)
        found += frame(Basic.Recover, channel, requeue=True)
        found += frame(Basic.Cancel, channel, consumer_tag=tag)
    return found


def declares(chance: random.Random) -> bytes:
    """Declares queues and exchanges repeatedly, with deeply nested arguments and long names."""
    found = b""
    for _ in range(300):
        channel, number = some_channel(chance), chance.randrange(30)
        name = f"attack-{number}-" + "n" * 200
        arguments = {"x-max-length": long(1 + number), "deep": deep(TABLE_DEPTH_MAX - 2)}
        found += frame(Queue.Declare, channel, queue=name, arguments=arguments)
        found += frame(Exchange.Declare, channel, exchange=name, exchange_type="topic")
        found += frame(Queue.Bind, channel, queue=name, exchange=name,
                       routing_key=".".join(chance.choice("*#ab") for _ in range(126)))  # fmt: skip
        found += frame(Queue.Declare, channel, queue=name, passive=True) * 3
        found += frame(Queue.Purge, channel, queue=name)
    return found


def publications(chance: random.Random) -> bytes:
    """Publishes messages that are routed nowhere and returned, have thousands of headers, have
    routing keys of a hundred words, and are confirmed."""
    found = frame(Confirm.Select, 1) + frame(Confirm.Select, 2)
    number = chance.randrange(30)
    name = f"attack-{number}-" + "n" * 200
    key = ".".join(chance.choice("ab") for _ in range(127))
    found += frame(Exchange.Declare, 1, exchange=name, exchange_type="topic")
    for _ in range(20):
        found += publishes(*[b"x"] * 200, exchange=name, key=key).data
        found += publishes(b"y" * 100_000, key="nowhere", mandatory=True).data
        found += publishes(*[b"z"] * 20, key="no", mandatory=True, headers=wide(500)).data
        found += publishes(
            b"d", key="nowhere", channel=2, headers={"deep": deep(TABLE_DEPTH_MAX - 2)}
        ).data
    return found


def transactions(chance: random.Random) -> bytes:
    found = b""
    for _ in range(30):
        channel = some_channel(chance)
        found += frame(Tx.Select, channel)
        found += publishes(*[b"t" * 1000] * 100, key="nowhere", channel=channel).data
        found += frame(chance.choice((Tx.Commit, Tx.Rollback)), channel)
    return found


def open_transactions(chance: random.Random) -> bytes:
    """Publishes messages in transactions that are never ended."""
    found = b""
    for _ in range(60):
        channel = some_channel(chance)
        found += frame(Tx.Select, channel)
        found += publishes(*[b"o" * 10_000] * 5, key=LARGE_QUEUE, channel=channel).data
        found += publishes(*[b"o"] * 200, key=LARGE_QUEUE, channel=channel).data
    return found


def channels(chance: random.Random) -> bytes:
    """Opens channels, causes an error on each, and opens them again: each error is answered with a
    text."""
    found = b""
    for _ in range(1000):
        channel = chance.randrange(CHANNELS + 1, 2000)
        found += frame(Channel.Open, channel)
        found += frame(Queue.Declare, channel, queue="no-such-" + "q" * 200, passive=True)
        found += frame(Channel.CloseOk, channel)
    return found


def unfinished(chance: random.Random) -> bytes:
    """Sends contents, the last of which never ends, on every channel."""
    found = b""
    for channel in range(1, CHANNELS + 1):
        whole = publishes(b"u" * 300_000, key="nowhere", channel=channel).data
        found += whole[: chance.randrange(100, 128_000)] if channel == CHANNELS else whole
    return found


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(1000)


THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each
    for each in (
        gets, consumers, declares, publications, transactions, open_transactions, channels,
        unfinished, noise,
    )
}  # fmt: skip
