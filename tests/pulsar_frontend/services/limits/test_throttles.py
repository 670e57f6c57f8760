"""Producers of a topic with a publish rate are read no faster than the rate allows."""

from collections import Counter
from typing import Any

import pytest
import trio
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import body_of, connected
from tests.pulsar_frontend.session.playbook import received

from arneb_core.api.process.long_turns import FIRST_READ_BYTES, LONG_TURNS_MAX
from arneb_pulsar.server.publishing import RECEIVE_BYTES, THROTTLED_RECEIVE_BYTES, Publishing
from arneb_pulsar.session.connection.connection import ConnectionSession
from arneb_pulsar.session.interface.effects import Effect
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
)

pytestmark = pytest.mark.real_time

RATE = {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": -1}


@pytest.mark.parametrize(
    "where", ["/t/publishRate", "/admin/v2/namespaces/public/default/publishRate"]
)
async def test_a_producer_that_sent_too_much_is_read_later(
    open_broker: OpenBroker, where: str
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        admin = Admin(running)
        await client.producer("t")
        assert await admin("POST", where, RATE) == (204, b"")
        assert await admin("GET", where) == (200, RATE)
        began = trio.current_time()
        await client.publish(*[b"x"] * 130)
        await client.send(CommandPing())
        for _ in range(130):
            await client.expect(CommandSendReceipt)
        await client.expect(CommandPong)
        assert trio.current_time() - began >= 0.29
        # Others, and the same client with another topic, are heard at once.
        began = trio.current_time()
        await other.producer("other")
        await other.publish(*[b"x"] * 130)
        for _ in range(130):
            await other.expect(CommandSendReceipt)
        assert trio.current_time() - began < 0.25
        (claim,) = running.context.producers.of(running.core.topics[NAME])
        publishing = claim.holder.owner
        assert isinstance(publishing, Publishing)
        assert publishing.receive_bytes == THROTTLED_RECEIVE_BYTES
        assert await admin("DELETE", where) == (204, b"")
        await client.publish(b"x", first=200)
        await client.expect(CommandSendReceipt)
        assert publishing.receive_bytes == RECEIVE_BYTES


async def test_what_comes_right_after_the_first_producer_keeps_to_the_rate(
    open_broker: OpenBroker,
) -> None:
    """The read that waits for it was asked for before the topic was known."""
    slowly = {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": -1}
    async with open_broker() as running, connected(running.context) as (client,):
        where = "/admin/v2/namespaces/public/default/publishRate"
        assert await Admin(running)("POST", where, slowly) == (204, b"")
        await client.producer("t")
        await client.publish(*[b"x"] * 100)
        await client.expect(CommandSendReceipt)
        (claim,) = running.context.producers.of(running.core.topics[NAME])
        # In one piece of 1,024 bytes; the next is looked at many seconds later.
        assert 0 < claim.holder.counts.messages < 40
        for each in running.context.connections:
            each.connection.kill()  # nor would it notice sooner that the client leaves


class Passes(trio.abc.Instrument):
    """Counts the passes of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_pieces_of_a_read_are_long_turns_each(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be one turn of some 40 ms together."""
    passes, pieces = Passes(), Counter[int]()
    receive = ConnectionSession.receive_data

    def counted(session: ConnectionSession, *rest: Any) -> list[Effect]:
        pieces[passes.count] += 1
        return receive(session, *rest)

    async with (
        open_broker() as running,
        connected(running.context, 2) as (client, other),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(running.context.long_turns.run)
        await other.producer("t")
        fast = RATE | {"publishThrottlingRateInMsg": 1_000_000}
        assert await Admin(running)("POST", "/t/publishRate", fast) == (204, b"")
        await client.producer("u", 2)
        # What is read next may be large, for so was this; and only then is the rate known.
        large = CommandSend(producer_id=2, sequence_id=0)
        sent = received(large, body=body_of(b"x" * 2 * FIRST_READ_BYTES, sequence_id=0))
        opening = received(CommandProducer(topic="t", producer_id=1, request_id=9))
        await client.stream.send_all(sent.data + opening.data)
        while not isinstance((await client.reply())[0], CommandProducerSuccess):
            pass
        monkeypatch.setattr(ConnectionSession, "receive_data", counted)
        trio.lowlevel.add_instrument(passes)
        await client.publish(*[b"x"] * 2_000)
        for _ in range(2_000):
            await client.expect(CommandSendReceipt)
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(passes)
    assert pieces.total() > 50
    assert max(pieces.values()) <= LONG_TURNS_MAX + 1


async def test_a_rate_that_is_none_is_refused(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t")
        assert (
            await Admin(running)("POST", "/t/publishRate", {"publishThrottlingRateInMsg": "x"})
        )[0] == 400
        assert (await Admin(running)("GET", "/t/publishRate")) == (204, b"")


async def test_a_rate_outlives_a_restart(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t")
        await Admin(running)("POST", "/t/publishRate", RATE)
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t")
        topic = running.core.topics[NAME]
        throttle = running.context.throttles.of(topic)
        assert throttle is not None
        assert throttle.rate.messages == 100
        await Admin(running)("DELETE", "/t", force="true")
        await running.policy_enforcer.check_idle(0)
        assert running.context.throttles.of(topic) is None


NAME = "persistent://public/default/t"
