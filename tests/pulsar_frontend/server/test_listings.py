"""Room for answers: who asks for much and reads nothing makes the broker hold little.

A few thousand requests fit one read. Work is counted here, no time is measured.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

import pytest
import trio
import trio.testing
from google.protobuf.message import Message
from tests.pulsar_frontend.raw_client import RawClient
from tests.pulsar_frontend.server.test_connection import FakeCore

from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.server.connection import UNREAD_BYTES_MAX, Connection
from arneb_pulsar.server.request_tasks import REQUESTS_MAX
from arneb_pulsar.server.requests import Endpoint
from arneb_pulsar.services.context import BrokerContext, make_context
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SPACE = "public/default"
TOPICS = tuple(f"persistent://{SPACE}/a-rather-long-name-of-a-topic-{n:04}" for n in range(2000))
LIST_BYTES = sum(len(name) + 2 for name in TOPICS) + 100
ROOM = 256 * 1024


class CoreOfTopics(FakeCore):
    """A core of which only the names of its topics are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, object] = {}
        self.topics = MappingProxyType(self.names)
        self.changed = lambda topic, came: None

    def watch_topics(self, watcher: object) -> None:
        self.changed = watcher  # type: ignore[assignment]


class Stuck:
    """A client that has connected, and takes nothing more until it is let go."""

    def __init__(self, core: CoreOfTopics, context: BrokerContext) -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        self.client = RawClient(ours)
        self.connection = Connection(context, theirs, Endpoint("pulsar://here:1", "client"))
        self.core = core
        self._go = trio.Event()
        sender = theirs.send_stream
        pump = sender.send_all_hook

        async def pump_when_read() -> None:
            await self._go.wait()
            await pump()

        sender.send_all_hook = pump_when_read
        self.read()

    def stop_reading(self) -> None:
        self._go = trio.Event()

    def read(self) -> None:
        self._go.set()

    @property
    def held_bytes(self) -> int:
        return self.connection._session.waiting_bytes + self.connection._writer._sending_bytes

    async def ask(self, *commands: Message) -> None:
        await self.client.send(*commands)
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def stuck() -> AsyncIterator[Stuck]:
    core = CoreOfTopics()
    context = make_context(core, PulsarConfig(outbox_bytes_max=ROOM))  # type: ignore[arg-type]
    core.names.update(dict.fromkeys(TOPICS))
    one = Stuck(core, context)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.connection.run)
        await one.client.connect()
        one.stop_reading()
        yield one
        nursery.cancel_scope.cancel()


def lists(count: int, **fields: str) -> list[Message]:
    return [
        pb.CommandGetTopicsOfNamespace(request_id=number, namespace=SPACE, **fields)
        for number in range(count)
    ]


def watches(count: int) -> list[Message]:
    return [
        pb.CommandWatchTopicList(
            request_id=number, watcher_id=number, namespace=SPACE, topics_pattern=".*"
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "commands",
    [lists(3000), lists(3000, topics_pattern=f"{SPACE}/.*"), watches(200), watches(50) * 4],
    ids=["lists", "chosen", "watchers", "watchers again"],
)
async def test_lists_are_made_as_far_as_there_is_room(commands: Sequence[Message]) -> None:
    async with stuck() as one:
        await one.ask(*commands)
        assert one.held_bytes <= ROOM + LIST_BYTES
        assert one.connection._effects.tasks._pending <= REQUESTS_MAX


async def test_every_request_is_answered_when_the_client_reads_again() -> None:
    async with stuck() as one:
        await one.ask(*lists(30), pb.CommandPing())
        one.read()
        answered = set()
        for _ in range(31):
            reply, _ = await one.client.reply()
            if not isinstance(reply, pb.CommandPong):
                assert len(reply.topics) == len(TOPICS)
                answered.add(reply.request_id)
        assert answered == set(range(30))


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandLookupTopic(topic="t" * 200, request_id=1, advertised_listener_name="l" * 5000),
        pb.CommandPartitionedTopicMetadata(topic="t://" + "t" * 5000, request_id=1),
        pb.CommandGetSchema(request_id=1, topic="no/" + "t" * 5000),
        pb.CommandConsumerStats(request_id=1, consumer_id=1),
        pb.CommandNewTxn(request_id=1, tc_id=7),
        pb.CommandPing(),
    ],
    ids=lambda command: type(command).__name__,
)
async def test_other_answers_too(command: Message) -> None:
    """Where an answer is about as large as its request, as many are worked off as there is room
    for, however many a read brings."""
    async with stuck() as one:
        for _ in range(100):
            before = one.held_bytes
            await one.ask(*[command] * 500)
            if one.held_bytes == before:
                break
        assert ROOM / 4 < one.held_bytes <= ROOM + 10_000


async def test_a_client_that_waits_for_the_core_counts_with_its_request() -> None:
    async with stuck() as one:
        one.read()
        reached = trio.Event()

        async def hang(*_: object, **__: object) -> None:
            reached.set()
            await trio.sleep_forever()

        one.core.create_topic = hang  # type: ignore[attr-defined]
        large = {f"key {number}": "x" * 10_000 for number in range(5)}
        metadata = [pb.KeyValue(key=key, value=value) for key, value in large.items()]
        for number in range(20):
            await one.ask(
                pb.CommandProducer(
                    topic="t", producer_id=number, request_id=number, metadata=metadata
                )
            )
        assert reached.is_set()
        assert one.connection._effects.tasks.pending_bytes <= ROOM + 60_000


async def test_watchers_that_do_not_read_get_later_what_is_left_of_the_changes() -> None:
    async with stuck() as one:
        one.read()
        await one.ask(*watches(1))
        await one.client.expect(pb.CommandWatchTopicListSuccess)
        one.stop_reading()
        for number in range(20_000):
            one.core.changed(f"persistent://{SPACE}/new-{number}-{'x' * 50}", True)
        held = one.held_bytes
        assert ROOM < held < ROOM + 1000
        for number in range(19_990):
            one.core.changed(f"persistent://{SPACE}/new-{number}-{'x' * 50}", False)
        assert one.held_bytes == held
        one.read()
        there: set[str] = set()
        while not await one.client.silent():
            update = await one.client.expect(pb.CommandWatchTopicUpdate)
            there = there.union(update.new_topics).difference(update.deleted_topics)
        assert {name.split("-")[1] for name in there} == {str(n) for n in range(19_990, 20_000)}


async def test_a_client_that_leaves_unrequested_frames_unread_is_closed_in_the_end() -> None:
    async with stuck() as one:
        frame = bytes(1024 * 1024)
        output = one.connection._session._output
        while output.unrequested_bytes <= UNREAD_BYTES_MAX:
            output.notify(frame)
        one.connection.tell(events_nobody_hears())
        await trio.testing.wait_all_tasks_blocked()
        assert one.connection._closing


def events_nobody_hears() -> object:
    from arneb_pulsar.session.interface.events import TopicChanged

    return TopicChanged("other/space", "persistent://other/space/t", came=True)
