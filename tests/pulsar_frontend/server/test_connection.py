"""What the server does with time and back-pressure, over a core that is not there."""

import math
from types import MappingProxyType

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.raw_client import Closed, RawClient, connected

from arneb_core.testing.leases import GivenLease
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.server.listener import serve_connection
from arneb_pulsar.services.context import BrokerContext, make_context
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


class FakeCore:
    """A core without topics, which may be crowded."""

    def __init__(self) -> None:
        self.topics = MappingProxyType({})
        self.crowded = False
        self.lease = GivenLease()
        self._room = trio.Event()

    def watch_topics(self, watcher: object) -> None: ...

    def turn_begins(self, whose: int) -> None: ...

    def turn_ends(self, *, may_be_called: bool) -> bool:
        return False

    def metadata(self, prefix: str) -> dict[str, bytes]:
        return {}

    async def room(self) -> None:
        if self.crowded:
            await self._room.wait()
        await trio.lowlevel.checkpoint()

    def clear(self) -> None:
        self.crowded = False
        self._room.set()


def context_of(core: FakeCore) -> BrokerContext:
    return make_context(core, PulsarConfig())  # type: ignore[arg-type]


async def test_a_client_that_never_connects_is_closed() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    started = trio.current_time()
    await serve_connection(context_of(FakeCore()), theirs, "pulsar://here:1", "connection")
    assert 30 <= trio.current_time() - started < 31
    assert await ours.receive_some() == b""


async def test_a_silent_client_is_pinged_and_then_closed() -> None:
    async with connected(context_of(FakeCore())) as (client,):
        started = trio.current_time()
        assert isinstance((await client.reply(math.inf))[0], pb.CommandPing)
        assert 30 <= trio.current_time() - started < 31
        await client.send(pb.CommandPong())
        for kind in (pb.CommandPing, pb.CommandError):
            assert isinstance((await client.reply(math.inf))[0], kind)
        with pytest.raises(Closed):
            await client.reply()
        assert 90 <= trio.current_time() - started < 122


async def test_nothing_is_read_while_the_core_is_crowded() -> None:
    core = FakeCore()
    async with connected(context_of(core)) as (client,):
        core.crowded = True
        await client.send(pb.CommandPing())
        await client.expect(pb.CommandPong)
        await client.send(pb.CommandPing())
        assert await client.silent(100), (
            "the broker's own pause must not count as the client's silence"
        )
        core.clear()
        await client.expect(pb.CommandPong)


async def test_a_client_that_takes_nothing_is_given_up() -> None:
    ours, theirs = trio.testing.memory_stream_pair()

    async def stuck() -> None:
        await trio.sleep_forever()

    assert theirs.send_stream is not None
    theirs.send_stream.send_all_hook = stuck
    async with trio.open_nursery() as nursery:
        started = trio.current_time()
        nursery.start_soon(
            serve_connection, context_of(FakeCore()), theirs, "pulsar://here:1", "connection"
        )
        client = RawClient(ours)
        await client.send(pb.CommandConnect(client_version="test", protocol_version=20))
    assert 60 <= trio.current_time() - started < 65


async def test_nothing_is_answered_without_a_lease() -> None:
    core = FakeCore()
    async with connected(context_of(core)) as (client,):
        core.lease.say(holds=False)
        await client.send(pb.CommandPing())
        assert await client.silent(20)
        core.lease.say(holds=True)
        assert isinstance((await client.reply())[0], pb.CommandPong)


async def test_a_client_of_a_broker_that_was_superseded_is_closed() -> None:
    core = FakeCore()
    async with connected(context_of(core)) as (client,):
        core.lease.say(holds=False)
        await client.send(pb.CommandPing())
        assert await client.silent(5)
        core.lease.say(holds=False, over=True)
        with pytest.raises(Closed):
            await client.reply()
