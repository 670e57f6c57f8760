"""Shovel ends in other brokers: a message put there counts once that broker has confirmed it."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from arneb_amqp.client.connection import ClientChannel
from arneb_amqp.client.events import Confirmed
from arneb_amqp.shovels.ends import Moved
from arneb_amqp.shovels.remote import RemoteDestination, RemoteSource
from arneb_amqp.wire.constants import ChannelId

NUMBER = ChannelId(1)


class FakeChannel:
    """Notes what it receives."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, bool]] = []

    async def say(self, method: Any) -> None:
        self.sent.append((method.name, method.delivery_tag, method.multiple))


class FakeConnection:
    """Accepts what is published."""

    is_blocked = False

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.session = SimpleNamespace(publish=self._publish)

    def _publish(self, number: ChannelId, exchange: str, key: str, body: bytes) -> None:
        self.published.append(body)

    async def flush(self) -> None:
        """The output has been written."""


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_batch_is_complete_when_each_message_is_confirmed(confirmed: bool) -> None:
    connection: Any = FakeConnection()
    channel = ClientChannel(connection, NUMBER)
    destination = RemoteDestination(connection, channel)
    batch = [Moved("", "q", b"%d" % number, number) for number in range(3)]
    found: list[set[int]] = []

    async def put() -> None:
        found.append(await destination.put(batch, confirmed=confirmed))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put)
        await trio.testing.wait_all_tasks_blocked()
        assert connection.published == [b"0", b"1", b"2"]
        assert found == ([] if confirmed else [set()])
        channel.tell(Confirmed(NUMBER, [1], False, stored=True))
        channel.tell(Confirmed(NUMBER, [2], False, stored=False))
        await trio.testing.wait_all_tasks_blocked()
        assert found == ([] if confirmed else [set()])
        channel.tell(Confirmed(NUMBER, [3], False, stored=True))
    assert found == ([{1}] if confirmed else [set()])


@pytest.mark.parametrize(
    ("refused", "acks", "expected"),
    [
        (set(), True, [("Basic.Ack", 7, True)]),
        (
            {1},
            True,
            [("Basic.Ack", 5, False), ("Basic.Nack", 6, False), ("Basic.Ack", 7, False)],
        ),
        (set(), False, []),
    ],
)
async def test_a_source_receives_the_acknowledgements_of_what_was_taken(
    refused: set[int], acks: bool, expected: list[tuple[str, int, bool]]
) -> None:
    channel: Any = FakeChannel()
    source = RemoteSource(channel, 3, acks=acks)
    await source.acknowledge([Moved("", "q", b"", tag) for tag in (5, 6, 7)], refused)
    assert channel.sent == expected
