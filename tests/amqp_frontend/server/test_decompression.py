"""What a Pulsar client has compressed is decompressed in threads for AMQP consumers, in order,
while others are served."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPConnectionError
from tests.amqp_frontend.server.conftest import Broker

from arneb_amqp.server.operations.consumers import Consumers
from arneb_amqp.session.compressed_runs import IN_A_PIECE, IN_A_TURN
from arneb_amqp.session.effects import Cancel
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_pulsar import codec
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

WITHIN_S = 30.0
LARGE = IN_A_TURN + 1


class Unpacking:
    """Unpacks in whatever thread, if it may, and remembers in which."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.begun = threading.Semaphore(0)
        self.may = threading.Event()
        self.may.set()

    def __call__(self, data: bytes, compression: int, size: int) -> bytes:
        self.threads.append(threading.get_ident())
        self.begun.release()
        assert self.may.wait(WITHIN_S), "nobody lets it go on"
        return data.ljust(size, b".")


@pytest.fixture
def unpacking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unpacking]:
    found = Unpacking()
    monkeypatch.setattr(codec, "decompress", found)
    yield found
    found.may.set()


def packed(body: bytes, size: int) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, compression=pb.ZSTD,
        uncompressed_size=size,
    )  # fmt: skip
    return EntryHeader(Origin.PULSAR).pack() + join_body(metadata.SerializeToString(), body)


def put(broker: Broker, queue: str, *sizes: int) -> list[bytes]:
    """Put messages into a queue that are compressed where they have a size; their bodies."""

    def body(number: int) -> bytes:
        return b"%d" % number

    def plain(number: int) -> bytes:
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
        head = EntryHeader(Origin.PULSAR).pack()
        return head + join_body(metadata.SerializeToString(), body(number))

    entries = [packed(body(n), size) if size else plain(n) for n, size in enumerate(sizes)]

    async def append() -> None:
        topic = broker.engine.topic(f"persistent://public/default/{queue}")
        await broker.engine.committed(Unit([(topic, entries)]))

    broker.call(append)
    return [body(number).ljust(size, b".") for number, size in enumerate(sizes)]


def loop_thread(broker: Broker) -> int:
    async def ident() -> int:
        return threading.get_ident()

    return broker.call(ident)


def wait(connection: Any, done: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN_S
    while not done() and time.monotonic() < until:
        connection.process_data_events(0.02)
    assert done(), "it did not happen"


def consume(channel: Any, queue: str, **options: Any) -> list[bytes]:
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), **options)
    return got


def hang_up(connection: Any) -> None:
    """End a connection without a word."""
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(AMQPConnectionError):
        wait(connection, lambda: False)
    connection._cleanup()


def test_large_messages_are_decompressed_in_threads_and_stay_in_order(
    broker: Broker, channel: Any, unpacking: Unpacking
) -> None:
    channel.queue_declare("o1", durable=True)
    bodies = put(broker, "o1", 0, LARGE, 0, 10, IN_A_PIECE + 1, 0, LARGE, LARGE, 0)
    got = consume(channel, "o1", auto_ack=True)
    wait(channel.connection, lambda: len(got) == len(bodies))
    assert got == bodies
    assert len(unpacking.threads) == 5
    assert loop_thread(broker) not in unpacking.threads


def test_small_messages_are_decompressed_at_once(
    broker: Broker, channel: Any, unpacking: Unpacking
) -> None:
    channel.queue_declare("o2", durable=True)
    bodies = put(broker, "o2", 10, 20)
    got = consume(channel, "o2", auto_ack=True)
    wait(channel.connection, lambda: len(got) == len(bodies))
    assert set(unpacking.threads) == {loop_thread(broker)}


def test_others_are_served_meanwhile_and_later_deliveries_wait(
    broker: Broker, unpacking: Unpacking
) -> None:
    connection = broker.connect()
    slow, other = connection.channel(), connection.channel()
    for queue in ("o3", "o3-behind", "o3-other"):
        slow.queue_declare(queue, durable=True)
    unpacking.may.clear()
    put(broker, "o3", LARGE)
    got = consume(slow, "o3", auto_ack=True)
    assert unpacking.begun.acquire(timeout=WITHIN_S)
    got_behind = consume(slow, "o3-behind", auto_ack=True)
    got_other = consume(other, "o3-other", auto_ack=True)
    other.basic_publish("", "o3-behind", b"behind")
    other.basic_publish("", "o3-other", b"other")
    wait(connection, lambda: bool(got_other))
    assert (got, got_behind) == ([], [])
    unpacking.may.set()
    wait(connection, lambda: bool(got_behind))
    assert [each[:1] for each in got] == [b"0"]
    connection.close()


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_cancelled_consumer_is_sent_what_it_was_given_before_the_answer(
    broker: Broker, unpacking: Unpacking, monkeypatch: pytest.MonkeyPatch, no_ack: bool
) -> None:
    retired, retire = threading.Event(), Consumers.retire

    def seen(consumers: Consumers, request: Cancel) -> None:
        retire(consumers, request)
        retired.set()

    monkeypatch.setattr(Consumers, "retire", seen)
    queue = f"o4-{no_ack}"
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    unpacking.may.clear()
    bodies = put(broker, queue, LARGE, LARGE, 0)
    got = consume(channel, queue, auto_ack=no_ack, consumer_tag="c")
    assert unpacking.begun.acquire(timeout=WITHIN_S)
    # Not channel.basic_cancel(), by which pika drops what comes before the answer.
    channel._impl._send_method(pika.spec.Basic.Cancel("c"))
    wait(connection, retired.is_set)
    put(broker, queue, 0, LARGE)
    unpacking.may.set()
    wait(connection, lambda: len(got) == len(bodies))
    assert channel.queue_declare(queue, passive=True).method.message_count == 2
    assert got == bodies
    connection.close()
    again = broker.connect()
    left = consume(again.channel(), queue, auto_ack=True)
    count = 2 if no_ack else len(bodies) + 2
    wait(again, lambda: len(left) == count)
    assert left[: count - 2] == bodies[: count - 2]
    again.close()


def test_a_connection_that_ends_meanwhile_gives_its_messages_back(
    broker: Broker, unpacking: Unpacking
) -> None:
    first = broker.connect()
    channel = first.channel()
    channel.queue_declare("o5", durable=True)
    unpacking.may.clear()
    bodies = put(broker, "o5", LARGE, LARGE)
    consume(channel, "o5")
    assert unpacking.begun.acquire(timeout=WITHIN_S)
    hang_up(first)
    unpacking.may.set()
    second = broker.connect()
    got = consume(second.channel(), "o5", auto_ack=True)
    wait(second, lambda: len(got) == len(bodies))
    assert got == bodies
    second.close()


def test_a_channel_that_is_closed_meanwhile_gives_its_messages_back(
    broker: Broker, unpacking: Unpacking
) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("o6", durable=True)
    unpacking.may.clear()
    bodies = put(broker, "o6", LARGE, LARGE)
    consume(channel, "o6")
    assert unpacking.begun.acquire(timeout=WITHIN_S)
    # Not channel.close(), by which pika first cancels the consumers.
    channel._impl._send_method(pika.spec.Channel.Close(200, "", 0, 0))
    other = broker.connect()
    looking = other.channel()
    wait(
        connection,
        lambda: looking.queue_declare("o6", passive=True).method.message_count == len(bodies),
    )
    unpacking.may.set()
    got = consume(looking, "o6", auto_ack=True)
    wait(other, lambda: len(got) == len(bodies))
    assert got == bodies
    other.close()
    hang_up(connection)


def test_a_client_that_does_not_read_has_little_decompressed_for_it(
    broker: Broker, unpacking: Unpacking
) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("o7", durable=True)
    size = 3 * IN_A_PIECE
    bodies = put(broker, "o7", *[size] * 8)
    got = consume(channel, "o7", auto_ack=True)
    # It has read the answer, and perhaps a part of the first message.
    assert unpacking.begun.acquire(timeout=WITHIN_S)
    other = broker.connect()
    looking = other.channel()
    for _ in range(100):
        looking.queue_declare("o7", passive=True)
    other.close()
    assert len(unpacking.threads) <= 2
    wait(connection, lambda: len(got) == len(bodies))
    assert got == bodies
    connection.close()


def test_a_message_that_is_pulled_is_decompressed_in_a_thread(
    broker: Broker, channel: Any, unpacking: Unpacking
) -> None:
    channel.queue_declare("o8", durable=True)
    bodies = put(broker, "o8", LARGE, 10)
    assert channel.basic_get("o8", auto_ack=True)[2] == bodies[0]
    assert loop_thread(broker) not in unpacking.threads
    assert channel.basic_get("o8", auto_ack=True)[2] == bodies[1]
    assert loop_thread(broker) in unpacking.threads
