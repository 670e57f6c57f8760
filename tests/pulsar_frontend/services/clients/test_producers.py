"""Producers that want a topic for themselves, over a real core."""

from typing import Any

import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import Closed, RawClient, connected

from arneb_pulsar.names import parse_topic
from arneb_pulsar.services.operations.topic_lifecycle import drop
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

NAME = "persistent://public/default/t"


async def contend(owner: RawClient, asking: RawClient, **fields: Any) -> Any:
    """Ask for what a living client has; the answer."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_answer_one_ping, owner)
        return await asking.producer(**fields)


async def _answer_one_ping(client: RawClient) -> None:
    await client.expect(pb.CommandPing)
    await client.send(pb.CommandPong())


async def close_producer(client: RawClient) -> None:
    await client.send(pb.CommandCloseProducer(producer_id=1, request_id=9))
    await client.expect(pb.CommandSuccess)


async def test_an_exclusive_producer_keeps_others_out(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        mine = await first.producer(producer_access_mode=pb.Exclusive)
        assert mine.topic_epoch == 0
        shared = await contend(first, second)
        assert (shared.error, shared.message) == (
            pb.ProducerBusy,
            f"Topic has an existing exclusive producer: {mine.producer_name}",
        )
        other = await contend(first, second, producer_access_mode=pb.Exclusive)
        assert other.error == pb.ProducerFenced
        await close_producer(first)
        assert (await second.producer()).topic_epoch == 0
        third = await first.producer(producer_access_mode=pb.Exclusive)
        assert (third.error, third.message) == (
            pb.ProducerFenced,
            "Topic has existing shared producers",
        )


async def test_one_that_waits_gets_its_turn_when_the_owner_goes(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 3) as (first, second, third):
        await first.producer(producer_access_mode=pb.Exclusive)
        for waiting in (second, third):
            queued = await waiting.producer(producer_access_mode=pb.WaitForExclusive)
            assert not queued.producer_ready
        assert await second.silent()
        await first.stream.aclose()
        admitted = await second.expect(pb.CommandProducerSuccess)
        assert (admitted.producer_ready, admitted.topic_epoch) == (True, 1)
        await second.publish(b"x")
        await second.expect(pb.CommandSendReceipt)
        await close_producer(second)
        assert (await third.expect(pb.CommandProducerSuccess)).topic_epoch == 2


async def test_fencing_ends_everybody_else(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 3) as (first, second, third):
        mine = await first.producer(producer_access_mode=pb.Exclusive)
        await second.producer(producer_access_mode=pb.WaitForExclusive)
        fencing = await third.producer(producer_access_mode=pb.ExclusiveWithFencing)
        assert fencing.topic_epoch == mine.topic_epoch + 1
        lost = await second.expect(pb.CommandError)
        assert (lost.error, lost.request_id) == (pb.ProducerFenced, 1)
        assert await first.silent(), "an owner that is fenced out is told nothing"
        await first.publish(b"too late")
        await first.expect(pb.CommandError)
        with pytest.raises(Closed):
            await first.reply()
        assert running.core.topic(NAME).last is None
    async with open_broker() as running, connected(running.context) as (again,):
        back = await again.producer(producer_access_mode=pb.Exclusive, topic_epoch=mine.topic_epoch)
        assert (back.error, back.message) == (
            pb.ProducerFenced,
            "Topic epoch has already moved. Current epoch: 1, Producer epoch: 0",
        )


async def test_an_epoch_is_durable_before_anybody_hears_of_it(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        await second.producer()
        await close_producer(second)
        running.store.hold()
        mode = pb.Exclusive
        await first.send(
            pb.CommandProducer(topic="t", producer_id=1, request_id=1, producer_access_mode=mode)
        )
        assert await first.silent()
        assert (await contend(first, second)).error == pb.ProducerBusy
        running.store.release()
        assert (await first.expect(pb.CommandProducerSuccess)).topic_epoch == 0


async def test_an_epoch_that_cannot_be_kept_is_none(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        await close_producer(client)
        running.store.fail_until_healed()
        refused = await client.producer(producer_access_mode=pb.Exclusive)
        assert refused.error == pb.PersistenceError
        running.store.heal()
        assert (await client.producer(producer_access_mode=pb.Exclusive)).topic_epoch == 0


async def test_the_epoch_goes_with_its_topic(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer(producer_access_mode=pb.Exclusive)
        await running.core.delete_topic(NAME)
        again = await client.producer(producer_id=2, producer_access_mode=pb.Exclusive)
        assert again.topic_epoch == 0
    async with open_broker() as running, connected(running.context) as (client,):
        again = await client.producer(producer_access_mode=pb.Exclusive)
        assert again.topic_epoch == 1
        assert len(running.core.metadata("pulsar/topic/")) == 1, "what nobody needs is removed"


async def test_waiting_producers_are_refused_when_the_topic_is_deleted(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        await first.producer(producer_access_mode=pb.Exclusive)
        await second.producer(producer_access_mode=pb.WaitForExclusive)
        await drop(running.context, parse_topic("t"))
        await first.expect(pb.CommandCloseProducer)
        assert (await second.expect(pb.CommandError)).error == pb.ServiceNotReady
        assert (await second.producer(producer_access_mode=pb.Exclusive)).topic_epoch == 0
