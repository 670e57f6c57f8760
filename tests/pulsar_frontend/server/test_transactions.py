"""Transactions on a broker, over the wire: each counts whole or not at all, after a restart too."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.server.transacting import (
    Refused,
    acknowledge,
    add,
    asked,
    begin,
    end,
    named,
    send,
)
from tests.pulsar_frontend.session.playbook import received

from arneb_core.engine.engine import open_engine
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.context import make_context
from arneb_pulsar.transactions.states import COORDINATORS
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

EARLIEST = pb.CommandSubscribe.Earliest
EXCLUSIVE = pb.CommandSubscribe.Exclusive


def payloads(replies: list[tuple[Any, bytes]]) -> list[bytes]:
    """What the messages say."""
    return [body[body.rindex(b"|") :] for _, body in replies]


async def messages(client: RawClient, count: int) -> list[bytes]:
    return payloads(await client.take(count))


@asynccontextmanager
async def two(running: Running) -> AsyncIterator[tuple[RawClient, RawClient]]:
    """One that works in transactions and one that reads what it makes."""
    async with connected(running.context, 2) as (worker, reader):
        await worker.producer("out")
        await reader.subscribe("out", initialPosition=EARLIEST)
        await reader.flow(100)
        yield worker, reader


async def test_a_client_finds_the_coordinator(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        command = pb.CommandPartitionedTopicMetadata(topic=COORDINATORS, request_id=1)
        await client.send(command)
        assert (await client.expect(pb.CommandPartitionedTopicMetadataResponse)).partitions == 1
        lookup = pb.CommandLookupTopic(topic=f"{COORDINATORS}-partition-0", request_id=2)
        await client.send(lookup)
        found = await client.expect(pb.CommandLookupTopicResponse)
        assert found.response == pb.CommandLookupTopicResponse.Connect
        hello = pb.CommandTcClientConnectRequest(request_id=3, tc_id=0)
        await asked(client, hello, pb.CommandTcClientConnectResponse)
        with pytest.raises(Refused) as refused:
            hello = pb.CommandTcClientConnectRequest(request_id=3, tc_id=1)
            await asked(client, hello, pb.CommandTcClientConnectResponse)
        assert refused.value.code == pb.TransactionCoordinatorNotFound
        assert not [name for name in running.core.topics if "pulsar/system" in name]
        error = await client.producer(f"{COORDINATORS}-partition-0")
        assert error.error == pb.NotAllowedError


async def test_what_is_sent_is_there_when_it_is_committed_and_not_before(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, two(running) as (worker, reader):
        transaction = await begin(worker)
        await add(worker, transaction, "out")
        receipts = await send(worker, transaction, b"|1", b"|2")
        assert [type(each) for each in receipts] == [pb.CommandSendReceipt] * 2
        await worker.publish(b"|plain", first=7)
        await worker.expect(pb.CommandSendReceipt)
        assert await messages(reader, 1) == [b"|plain"], (
            "an open transaction must not hold others up"
        )
        assert await reader.silent()
        topic = running.core.topic("persistent://public/default/out")
        assert topic.messages == 1
        await end(worker, transaction, commit=True)
        assert await messages(reader, 2) == [b"|1", b"|2"]
        assert topic.messages == 3
        await end(worker, transaction, commit=True)
        with pytest.raises(Refused) as refused:
            await end(worker, transaction, commit=False)
        assert refused.value.code == pb.InvalidTxnStatus
        assert await reader.silent()


async def test_what_was_aborted_never_was(open_broker: OpenBroker) -> None:
    async with open_broker() as running, two(running) as (worker, reader):
        transaction = await begin(worker)
        await send(worker, transaction, b"|1")
        await end(worker, transaction, commit=False)
        await end(worker, transaction, commit=False)
        with pytest.raises(Refused):
            await end(worker, transaction, commit=True)
        (late,) = await send(worker, transaction, b"|2", first=1)
        assert late.error == pb.NotAllowedError
        assert await reader.silent()


async def test_acknowledgements_count_with_the_commit(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (worker, other):
        await worker.producer("in")
        await worker.publish(b"|1", b"|2", b"|3")
        await worker.take(3)
        await worker.subscribe("in", initialPosition=EARLIEST)
        await worker.flow(10)
        first, second, _ = [command.message_id for command, _ in await worker.take(3)]
        one, two = await begin(worker), await begin(worker)
        await acknowledge(worker, one, first)
        for conflicting in (one, two):
            with pytest.raises(Refused) as refused:
                await acknowledge(worker, conflicting, first)
            assert refused.value.code == pb.TransactionConflict
        await acknowledge(worker, two, second)
        await worker.send(pb.CommandCloseConsumer(consumer_id=1, request_id=5))
        await worker.expect(pb.CommandSuccess)
        await other.subscribe("in")
        await other.flow(10)
        assert await messages(other, 1) == [b"|3"], (
            "what an open transaction acknowledged must not be delivered"
        )
        assert await other.silent()
        await end(worker, two, commit=False)
        ((command, body),) = await other.take(1)
        assert (payloads([(command, body)]), command.redelivery_count) == ([b"|2"], 1)
        await end(worker, one, commit=True)
        assert await other.silent()
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        assert subscription.statistics().backlog_entries == 2


async def test_a_cumulative_acknowledgement_is_all_up_to_it(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("in")
        await worker.publish(*(b"|%d" % number for number in range(5)))
        await worker.take(5)
        await worker.subscribe("in", initialPosition=EARLIEST, subType=EXCLUSIVE)
        await worker.flow(10)
        ids = [command.message_id for command, _ in await worker.take(5)]
        one, two = await begin(worker), await begin(worker)
        await acknowledge(worker, one, ids[1])
        await acknowledge(worker, two, ids[3], cumulative=True)
        with pytest.raises(Refused) as refused:
            await acknowledge(worker, one, ids[4], cumulative=True)
        assert refused.value.code == pb.TransactionConflict
        await end(worker, one, commit=False)
        assert await messages(worker, 1) == [b"|1"]
        await end(worker, two, commit=True)
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        assert len(subscription.unacknowledged(9)) == 2


async def test_open_transactions_and_outcomes_outlive_a_restart(open_broker: OpenBroker) -> None:
    async with open_broker() as running, two(running) as (worker, reader):
        await worker.producer("in", 2)
        await worker.publish(b"|a", b"|b", producer_id=2)
        await worker.take(2)
        await worker.subscribe("in", initialPosition=EARLIEST)
        await worker.flow(10)
        ids = [command.message_id for command, _ in await worker.take(2)]
        stays, committed, aborted = [await begin(worker) for _ in range(3)]
        for number, each in enumerate((stays, committed, aborted)):
            await send(worker, each, b"|%d" % number, first=number)
        await acknowledge(worker, stays, ids[0])
        await acknowledge(worker, aborted, ids[1])
        await end(worker, committed, commit=True)
        await end(worker, aborted, commit=False)
        assert await messages(reader, 1) == [b"|1"]
    async with open_broker() as running, connected(running.context, 2) as (worker, reader):
        await running.context.transactions.start()
        await worker.producer("out")
        await reader.subscribe("out")
        await reader.flow(100)
        assert await messages(reader, 1) == [b"|1"]
        await worker.subscribe("in")
        await worker.flow(10)
        assert await messages(worker, 1) == [b"|b"]
        assert await worker.silent()
        await end(worker, committed, commit=True)
        await end(worker, aborted, commit=False)
        for ended, commit in ((committed, False), (aborted, True)):
            with pytest.raises(Refused) as refused:
                await end(worker, ended, commit=commit)
            assert refused.value.code == pb.InvalidTxnStatus
        await send(worker, stays, b"|later", first=9)
        new = await begin(worker)
        assert named(new) not in [named(each) for each in (stays, committed, aborted)]
        await end(worker, stays, commit=True)
        assert await messages(reader, 2) == [b"|0", b"|later"]
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        assert subscription.statistics().backlog_entries == 1


async def test_one_whose_time_is_up_is_aborted(open_broker: OpenBroker) -> None:
    now_ms = [1_000_000]
    clock = Clock(wall_ms=lambda: now_ms[0])
    async with open_broker(clock) as running, two(running) as (worker, reader):
        transaction = await begin(worker, 5_000)
        longer = await begin(worker, 6_000)
        await send(worker, transaction, b"|1")
        now_ms[0] += 4_999
        await running.context.transactions.expire(now_ms[0])
        await send(worker, transaction, b"|2", first=1)
        now_ms[0] += 1
        await running.context.transactions.expire(now_ms[0])
        with pytest.raises(Refused) as refused:
            await end(worker, transaction, commit=True)
        assert refused.value.code == pb.InvalidTxnStatus
        assert await reader.silent()
        await end(worker, longer, commit=True)
        # An hour and the time-out later nobody asks any more.
        transactions = running.context.transactions
        await transactions.gather(now_ms[0])
        with pytest.raises(Refused) as refused:
            await end(worker, transaction, commit=True)
        assert refused.value.code == pb.InvalidTxnStatus
        now_ms[0] += 3_600_000 + 6_000
        await transactions.gather(now_ms[0])
        transactions._patience._since_s -= 3_600
        await transactions.gather(now_ms[0])
        with pytest.raises(Refused) as refused:
            await end(worker, transaction, commit=True)
        assert refused.value.code == pb.TransactionNotFound
        assert not transactions.outcomes.singles


@pytest.mark.parametrize("set_by_ms", [9 * 3_600_000, -9 * 3_600_000])
async def test_a_clock_that_is_set_changes_no_answer(
    open_broker: OpenBroker, set_by_ms: int
) -> None:
    """A client that missed the answer asks again some minutes later."""
    async with open_broker() as running, two(running) as (worker, _):
        transaction = await begin(worker, 5_000)
        await send(worker, transaction, b"|1")
        await end(worker, transaction, commit=True)
        for minutes in range(3):
            now_ms = Clock().wall_ms() + set_by_ms + 60_000 * minutes
            await running.context.transactions.gather(now_ms)
        assert not running.context.transactions.outcomes.singles, "they were drawn together"
        await end(worker, transaction, commit=True)
        with pytest.raises(Refused) as refused:
            await end(worker, transaction, commit=False)
        assert refused.value.code == pb.InvalidTxnStatus


async def test_a_commit_that_cannot_be_stored_may_be_asked_for_again(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, two(running) as (worker, reader):
        transaction = await begin(worker)
        await send(worker, transaction, b"|1")
        running.store.fail_until_healed()
        with pytest.raises(Refused) as refused:
            await end(worker, transaction, commit=True)
        assert refused.value.code == pb.PersistenceError
        assert await reader.silent()
        running.store.heal()
        await end(worker, transaction, commit=True)
        assert await messages(reader, 1) == [b"|1"]


async def test_a_large_one_waits_on_disk(open_broker: OpenBroker) -> None:
    async with open_broker(transaction_bytes_max=10_000_000) as running, two(running) as pair:
        worker, reader = pair
        transaction, other = await begin(worker), await begin(worker)
        body = b"x" * 100_000 + b"|"
        for number in range(60):
            await send(worker, transaction, body + b"%d" % number, first=2 * number)
            if number % 10 == 0:
                await send(worker, other, b"|other", first=2 * number + 1)
        (open_one, _) = running.context.transactions.open
        assert not open_one.has_kept
        assert not any(each.kept for each in open_one.sends.values())
        await end(worker, other, commit=False)
        await end(worker, transaction, commit=True)
        assert await messages(reader, 60) == [b"|%d" % number for number in range(60)]
        assert await reader.silent()
        third = await begin(worker)
        for number in range(101):
            (reply,) = await send(worker, third, body, first=1_000 + number)
            if isinstance(reply, pb.CommandSendError):
                break
        assert (number, reply.error) == (99, pb.NotAllowedError)


async def test_what_was_sent_to_a_topic_that_has_gone_goes_with_it(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("stays")
        await worker.producer("goes", 2)
        transaction = await begin(worker)
        await send(worker, transaction, b"|1")
        await send(worker, transaction, b"|2", producer_id=2)
        await running.core.delete_topic("persistent://public/default/goes")
        await end(worker, transaction, commit=True)
        assert running.core.topic("persistent://public/default/stays").messages == 1


async def test_duplicates_are_recognised_in_transactions_too(open_broker: OpenBroker) -> None:
    async with open_broker(deduplication=True) as running, two(running) as (worker, reader):
        transaction, other = await begin(worker), await begin(worker)
        await send(worker, transaction, b"|1", b"|2")
        (again,) = await send(worker, transaction, b"|2", first=1)
        assert again.message_id.ledgerId == (1 << 64) - 1
        await send(worker, other, b"|3", first=2)
        await worker.publish(b"|4", first=3)
        await worker.expect(pb.CommandSendReceipt)
        assert await messages(reader, 1) == [b"|4"]
        await end(worker, transaction, commit=True)
        await end(worker, other, commit=False)
        assert await messages(reader, 2) == [b"|1", b"|2"]
        (late,) = await send(worker, transaction, b"|5", first=4)
        assert late.error == pb.NotAllowedError
        await worker.publish(b"|5", first=4)
        await worker.expect(pb.CommandSendReceipt)
        assert await messages(reader, 1) == [b"|5"]


async def test_two_transactions_of_one_producer_lose_nothing_as_duplicates(
    open_broker: OpenBroker,
) -> None:
    """It sends in one and the other by turns, and in none between, without waiting."""
    async with open_broker(deduplication=True) as running, two(running) as (worker, reader):
        ones, others = await begin(worker), await begin(worker)
        data = b""
        for number in range(9):
            own = {} if number % 3 == 2 else named((ones, others)[number % 3])
            command = pb.CommandSend(producer_id=1, sequence_id=number, **own)
            data += received(command, body=body_of(b"|%d" % number, sequence_id=number)).data
        await worker.stream.send_all(data)
        receipts = [(await worker.reply())[0] for _ in range(9)]
        assert [each.sequence_id for each in receipts] == [*range(9)]
        assert (1 << 64) - 1 not in {each.message_id.ledgerId for each in receipts}
        assert await messages(reader, 3) == [b"|2", b"|5", b"|8"]
        await end(worker, ones, commit=True)
        assert await messages(reader, 3) == [b"|0", b"|3", b"|6"]
        await end(worker, others, commit=True)
        assert await messages(reader, 3) == [b"|1", b"|4", b"|7"]


@pytest.mark.parametrize("commit", [True, False])
async def test_what_waits_for_deduplication_is_ended_too(
    open_broker: OpenBroker, *, commit: bool
) -> None:
    """It was sent before the end was asked for; what was sent behind that is refused."""
    async with open_broker(deduplication=True) as running, connected(running.context) as (worker,):
        await worker.producer("out")
        await end(worker, await begin(worker), commit=True)
        transaction = await begin(worker)
        running.store.hold()
        await worker.publish(b"|0", first=0)
        assert await worker.silent()
        for number in (1, 2):
            command = pb.CommandSend(producer_id=1, sequence_id=number, **named(transaction))
            body = body_of(b"|%d" % number, sequence_id=number)
            await worker.stream.send_all(received(command, body=body).data)
            if number == 1:
                action = pb.COMMIT if commit else pb.ABORT
                await worker.send(
                    pb.CommandEndTxn(request_id=3, txn_action=action, **named(transaction))
                )
            assert await worker.silent()
        running.store.release()
        receipts = [(await worker.reply())[0] for _ in range(4)]
        assert sorted(type(each).__name__ for each in receipts) == [
            "CommandEndTxnResponse",
            "CommandSendError",
            "CommandSendReceipt",
            "CommandSendReceipt",
        ]
        (refused,) = (each for each in receipts if isinstance(each, pb.CommandSendError))
        assert refused.sequence_id == 2
        (answer,) = (each for each in receipts if isinstance(each, pb.CommandEndTxnResponse))
        assert not answer.HasField("error")
        assert not running.context.transactions.open
        assert running.core.topic("persistent://public/default/out").messages == 1 + commit


async def test_messages_of_batches_are_acknowledged_one_by_one(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("in")
        batch = pb.CommandSend(producer_id=1, sequence_id=0, num_messages=3)
        body = body_of(b"|batch", num_messages_in_batch=3)
        await worker.stream.send_all(received(batch, body=body).data)
        await worker.expect(pb.CommandSendReceipt)
        await worker.subscribe("in", initialPosition=EARLIEST)
        await worker.flow(10)
        ((command, _),) = await worker.take(1)
        place = command.message_id
        one, two = await begin(worker), await begin(worker)

        def part(left: int) -> Any:
            return pb.MessageIdData(
                ledgerId=place.ledgerId, entryId=place.entryId, ack_set=[left], batch_size=3
            )

        await acknowledge(worker, one, part(0b110))
        with pytest.raises(Refused) as refused:
            await acknowledge(worker, two, part(0b100))
        assert refused.value.code == pb.TransactionConflict
        await acknowledge(worker, two, part(0b101))
        await end(worker, one, commit=True)
        await end(worker, two, commit=False)
        ((command, _),) = await worker.take(1)
        assert list(command.ack_set) == [0b110], (
            "the batch must come without what was acknowledged before"
        )
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        assert list(subscription.masks.values()) == [0b110]


async def test_messages_of_a_batch_are_acknowledged_by_one_command(open_broker: OpenBroker) -> None:
    """As Java's client does for a list of messages."""
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("in")
        batch = pb.CommandSend(producer_id=1, sequence_id=0, num_messages=3)
        body = body_of(b"|batch", num_messages_in_batch=3)
        await worker.stream.send_all(received(batch, body=body).data)
        await worker.expect(pb.CommandSendReceipt)
        await worker.subscribe("in", initialPosition=EARLIEST)
        await worker.flow(10)
        ((command, _),) = await worker.take(1)
        place = command.message_id
        parts = [
            pb.MessageIdData(
                ledgerId=place.ledgerId, entryId=place.entryId, ack_set=[left], batch_size=3
            )
            for left in (0b110, 0b101, 0b011)
        ]
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        for count in (2, 1):
            one = await begin(worker)
            await acknowledge(worker, one, *parts[-count:])
            del parts[-count:]
            await end(worker, one, commit=True)
            left = {0: [], 1: [0b001]}[len(parts)]
            assert list(subscription.masks.values()) == left
        assert not subscription.unacknowledged(1)


@pytest.mark.parametrize("again", [0b000, 0b100])
async def test_no_message_of_a_batch_is_acknowledged_cumulatively_twice(
    open_broker: OpenBroker, again: int
) -> None:
    """By the same transaction either: what is acknowledged so far stands as parts of the batch."""
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("in")
        batch = pb.CommandSend(producer_id=1, sequence_id=0, num_messages=3)
        body = body_of(b"|batch", num_messages_in_batch=3)
        await worker.stream.send_all(received(batch, body=body).data)
        await worker.expect(pb.CommandSendReceipt)
        await worker.subscribe("in", initialPosition=EARLIEST, subType=EXCLUSIVE)
        await worker.flow(10)
        ((command, _),) = await worker.take(1)
        place = command.message_id
        one = await begin(worker)

        def until(left: int) -> Any:
            fields: dict[str, Any] = {"ack_set": [left], "batch_size": 3} if left else {}
            return pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, **fields)

        for left in (0b110, 0b100, 0b000):
            await acknowledge(worker, one, until(left), cumulative=True)
        with pytest.raises(Refused) as refused:
            await acknowledge(worker, one, until(again), cumulative=True)
        assert refused.value.code == pb.TransactionConflict
        await end(worker, one, commit=True)
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        assert subscription.statistics().backlog_entries == 0


async def test_two_clients_that_end_one_at_the_same_time_get_the_same_answer(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 3) as (worker, *others):
        await worker.producer("out")
        transaction = await begin(worker)
        await send(worker, transaction, b"|1")
        async with trio.open_nursery() as nursery:
            for each in others:
                nursery.start_soon(lambda each=each: end(each, transaction, commit=True))
        assert running.core.topic("persistent://public/default/out").messages == 1


async def test_every_answer_to_a_client_is_on_disk_when_it_is_sent(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    """A copy of the data directory is what a broker that was killed would leave behind."""
    calls: list[tuple[str, int, int, int]] = []

    def killed(instant: str, results: int, backlog: int, is_open: int) -> None:
        shutil.copytree(tmp_path / "data", tmp_path / instant)
        calls.append((instant, results, backlog, is_open))

    async with open_broker() as running, two(running) as (worker, _):
        await worker.producer("in", 2)
        await worker.publish(b"|a", b"|b", producer_id=2)
        await worker.take(2)
        await worker.subscribe("in", initialPosition=EARLIEST)
        await worker.flow(10)
        ids = [command.message_id for command, _ in await worker.take(2)]
        transaction = await begin(worker)
        killed("begun", 0, 2, 1)
        await send(worker, transaction, b"|1", b"|2")
        await acknowledge(worker, transaction, ids[0])
        killed("done", 0, 2, 1)
        await end(worker, transaction, commit=True)
        killed("committed", 2, 1, 0)
        aborted = await begin(worker)
        await send(worker, aborted, b"|3", first=2)
        await acknowledge(worker, aborted, ids[1])
        await end(worker, aborted, commit=False)
        killed("aborted", 2, 1, 0)
    for instant, results, backlog, is_open in calls:
        async with open_engine(tmp_path / instant) as core:
            context = make_context(core, PulsarConfig())
            await context.transactions.start()
            assert len(context.transactions.open) == is_open
            subscription = core.topic("persistent://public/default/in").subscriptions["s"]
            assert core.topic("persistent://public/default/out").messages == results
            assert subscription.statistics().backlog_entries == backlog
            async with connected(context) as (client,):
                await end(client, transaction, commit=True)
                assert core.topic("persistent://public/default/out").messages == 2 * (
                    instant != "begun"
                )
                ready = await client.subscribe("in")
                assert isinstance(ready, pb.CommandSuccess)
                await client.flow(10)
                left = [b"|a", b"|b"] if instant == "begun" else [b"|b"]
                assert await messages(client, len(left)) == left
                assert await client.silent()
