"""Compaction over a real core: what is superseded is not read compacted, also after a restart."""

from typing import Any

import pytest
import trio
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.session.playbook import received

from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_pulsar.services.topics.compactor import COMPACTION, Status
from arneb_pulsar.wire.batch import join_batch
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetLastMessageId,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    SingleMessageMetadata,
)

pytestmark = pytest.mark.real_time

Pair = tuple[str, bytes]


async def publish(client: RawClient, *pairs: Pair, first: int = 0) -> None:
    """Single messages with keys."""
    for index, (key, value) in enumerate(pairs):
        body = body_of(value, partition_key=key, sequence_id=first + index)
        send = CommandSend(producer_id=1, sequence_id=first + index)
        await client.stream.send_all(received(send, body=body).data)
        await client.expect(CommandSendReceipt)


async def publish_batch(client: RawClient, *pairs: Pair, sequence_id: int) -> None:
    """One batch."""
    singles = [
        (SingleMessageMetadata(payload_size=len(value), partition_key=key), value)
        for key, value in pairs
    ]
    body = body_of(join_batch(singles), sequence_id=sequence_id, num_messages_in_batch=len(pairs))
    send = CommandSend(producer_id=1, sequence_id=sequence_id, num_messages=len(pairs))
    await client.stream.send_all(received(send, body=body).data)
    await client.expect(CommandSendReceipt)


async def read(
    client: RawClient, consumer_id: int, *, compacted: bool = True, name: str = ""
) -> list[tuple[int, tuple[int, ...]]]:
    """Entry ids with their ack sets, as a new subscription gets them."""
    await client.subscribe(
        "t",
        consumer_id,
        subscription=name or f"s{consumer_id}",
        subType=CommandSubscribe.Exclusive,
        read_compacted=compacted,
        initialPosition=CommandSubscribe.Earliest,
    )
    await client.flow(1000, consumer_id)
    found: list[tuple[int, tuple[int, ...]]] = []
    while not await client.silent():
        command, _ = await client.reply()
        assert isinstance(command, CommandMessage)
        found.append((command.message_id.entryId, tuple(command.ack_set)))
    return found


async def compact(running: Running) -> None:
    await running.context.compactor.compact(running.core.topics["persistent://public/default/t"])


async def last_id(client: RawClient, consumer_id: int) -> Any:
    await client.send(CommandGetLastMessageId(consumer_id=consumer_id, request_id=9))
    return (await client.reply())[0].last_message_id


async def test_only_the_last_of_each_key_is_read(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (writer, client):
        await writer.producer("t")
        await publish(writer, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("c", b""))
        assert [entry for entry, _ in await read(client, 1)] == [0, 1, 2, 3, 4]
        await compact(running)
        assert [entry for entry, _ in await read(client, 2)] == [1, 2]
        assert (await last_id(client, 2)).entryId == 2
        assert [entry for entry, _ in await read(client, 3, compacted=False)] == [0, 1, 2, 3, 4]
        assert (await last_id(client, 3)).entryId == 4
        await publish(writer, ("b", b"5"), ("d", b"6"), first=5)
        assert len(await client.take(6)) == 6
    async with open_broker() as running, connected(running.context) as (client,):
        assert [entry for entry, _ in await read(client, 1, name="new")] == [1, 2, 5, 6]
        await compact(running)
        assert [entry for entry, _ in await read(client, 2, name="newer")] == [2, 5, 6]


async def test_of_batches_single_messages_stay(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (writer, client):
        await writer.producer("t")
        await publish_batch(writer, ("a", b"1"), ("b", b"2"), ("c", b"3"), sequence_id=0)
        await publish_batch(writer, ("a", b"4"), ("a", b"5"), sequence_id=3)
        await publish_batch(writer, ("b", b""), ("c", b"6"), sequence_id=5)
        await compact(running)
        assert await read(client, 1) == [(1, (0b10,)), (2, (0b10,))]
        assert (await last_id(client, 1)).batch_index == 1
        await publish_batch(writer, ("c", b""), sequence_id=7)
        await client.take(1)
        await compact(running)
        assert await read(client, 2) == [(1, (0b10,))]
        last = await last_id(client, 2)
        assert (last.entryId, last.batch_index) == (1, 1)


async def test_what_took_a_key_away_is_marked_last(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t")
        await publish(client, ("a", b"1"), ("b", b"2"), ("a", b""))
        topic = running.core.topics["persistent://public/default/t"]
        marks = await topic.subscribe(COMPACTION, initial=InitialPosition.EARLIEST)
        running.store.fail_until_healed()
        with pytest.raises(StoreFailed):
            await compact(running)
        running.store.heal()
        assert position_at(1, 2) in marks.unacknowledged(9)
        await compact(running)
        assert [entry for entry, _ in await read(client, 1)] == [1]


async def test_it_is_asked_for_over_http(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer("t")
        await publish(client, ("a", b"1"), ("a", b"2"))
        assert (await admin("GET", "/t/compaction"))[1]["status"] == "NOT_RUN"
        assert (await admin("PUT", "/t/compaction"))[0] == 204
        assert (await admin("PUT", "/t/compaction"))[0] == 409
        topic = running.core.topics["persistent://public/default/t"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.policy_enforcer.run)
            with trio.fail_after(10):
                while running.context.compactor.outcome(topic).status is Status.RUNNING:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert (await admin("GET", "/t/compaction"))[1] == {"status": "SUCCESS", "lastError": ""}
        assert await admin("GET", "/t/subscriptions") == (200, [COMPACTION])
        assert (await admin("DELETE", f"/t/subscription/{COMPACTION}"))[0] == 412
        assert (await client.subscribe("t", 5, subscription=COMPACTION)).error == pb.NotAllowedError
        await admin("POST", "/t/compactionThreshold", 1)
        await running.policy_enforcer.check_compactions(0)
        assert (await admin("GET", "/t/compaction"))[1]["status"] == "SUCCESS"
        await publish(client, ("a", b"3"), first=2)
        await running.policy_enforcer.check_compactions(0)
        assert (await admin("GET", "/t/compaction"))[1]["status"] == "RUNNING"


async def test_shared_subscriptions_do_not_read_compacted(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        answer = await client.subscribe("t", read_compacted=True)
        assert answer.error == pb.NotAllowedError
