"""Transactions on the broker in memory: all of one counts, or nothing, and each says where it
stands."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of, early, produce, sent_count

from arneb_pulsar.client import Batching, Client, ProducerOptions, SubscriptionType
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.errors import (
    ClientClosed,
    NotAllowed,
    TimedOut,
    TransactionConflict,
    TransactionCoordinatorNotFound,
    TransactionEnded,
    TransactionNotFound,
)
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.testing import FakeBroker, Faults
from arneb_pulsar.client.transactions import MOVES, State, Transaction

SINGLY = ProducerOptions(batching=None, transactions=True)


class Shop:
    """A client with a producer and two subscriptions of ``orders``."""

    def __init__(
        self,
        broker: FakeBroker,
        client: Client,
        producer: Producing[bytes],
        consumer: Consuming[bytes],
    ) -> None:
        self.broker, self.client = broker, client
        self.producer, self.consumer = producer, consumer

    async def all_that_comes(self) -> list[bytes]:
        found = []
        with anyio.move_on_after(5):
            while True:
                found.append((await self.consumer.receive()).data)
        return found


@asynccontextmanager
async def shop(
    count: int = 3, batching: Batching | None = None, **more: object
) -> AsyncIterator[Shop]:
    broker = FakeBroker(coordinators=2, brokers=2)
    async with client_of(broker) as client:
        await produce(client, count, batching)
        producer = await client.create_producer("orders", SINGLY)
        consumer = await client.subscribe("orders", "billing", early(**more))  # type: ignore[arg-type]
        yield Shop(broker, client, producer, consumer)


async def test_nobody_gets_a_message_or_what_follows_it_before_the_commit() -> None:
    async with shop(0) as it:
        async with await it.client.begin_transaction() as transaction:
            await transaction.send(it.producer, b"in it")
            await it.producer.send(b"behind it")
            with pytest.raises(TimedOut):
                await it.consumer.receive(30)
        assert await it.all_that_comes() == [b"in it", b"behind it"]


async def test_nothing_of_what_is_aborted_counts() -> None:
    async with shop(3) as it:
        first = await it.consumer.receive()
        transaction = await it.client.begin_transaction()
        await transaction.send(it.producer, b"never")
        await transaction.acknowledge(it.consumer, first)
        await transaction.abort()
        await it.producer.send(b"always")
        assert await it.all_that_comes() == [b"1", b"2", b"0", b"always"]
        assert (1, 0) in it.broker.backlog("orders", "billing")


@pytest.mark.parametrize("cumulative", [False, True])
async def test_acknowledgements_count_with_their_transaction(cumulative: bool) -> None:
    async with shop(3, kind=SubscriptionType.EXCLUSIVE) as it:
        messages = [await it.consumer.receive() for _ in range(3)]
        async with await it.client.begin_transaction() as transaction:
            await transaction.acknowledge(it.consumer, messages[1], cumulative=cumulative)
            assert len(it.broker.backlog("orders", "billing")) == 3
        left = [(1, 2)] if cumulative else [(1, 0), (1, 2)]
        assert it.broker.backlog("orders", "billing") == left


async def test_a_part_of_a_batch_is_acknowledged_in_a_transaction() -> None:
    async with shop(3, Batching(), batch_index_acks=True) as it:
        messages = [await it.consumer.receive() for _ in range(3)]
        async with await it.client.begin_transaction() as transaction:
            await transaction.acknowledge(it.consumer, messages[1])
        it.broker.cut()
        assert await it.all_that_comes() == [b"0", b"2"]


async def test_a_transaction_that_timed_out_is_aborted_and_its_next_use_fails() -> None:
    async with shop(0) as it:
        transaction = await it.client.begin_transaction(timeout_s=10)
        await transaction.send(it.producer, b"too slow")
        await anyio.sleep(60)
        with pytest.raises(NotAllowed):
            await transaction.send(it.producer, b"too late")
        assert transaction.state is State.FAILED
        with pytest.raises(TransactionEnded):
            await transaction.commit()
        late = await it.client.begin_transaction(timeout_s=10)
        await late.send(it.producer, b"as slow")
        await anyio.sleep(60)
        with pytest.raises(TransactionNotFound):
            await late.commit()
        await it.producer.send(b"next")
        assert await it.all_that_comes() == [b"next"]


async def test_what_another_acknowledges_is_a_conflict_and_the_block_aborts() -> None:
    async with shop(1) as it:
        message = await it.consumer.receive()
        other = await it.client.begin_transaction()
        await other.acknowledge(it.consumer, message)
        with pytest.raises(TransactionConflict):
            async with await it.client.begin_transaction() as transaction:
                await transaction.send(it.producer, b"never")
                await transaction.acknowledge(it.consumer, message)
        assert transaction.state is State.ABORTED
        with pytest.raises(TransactionEnded):
            async with await it.client.begin_transaction() as passed_over:
                with pytest.raises(TransactionConflict):
                    await passed_over.acknowledge(it.consumer, message)
        assert passed_over.state is State.ABORTED
        await other.commit()
        assert await it.all_that_comes() == []


async def test_ack_timeout_and_negative_acks_leave_to_the_transaction_what_is_in_it() -> None:
    async with shop(2, ack_timeout_s=5.0, negative_ack_delay_s=5.0) as it:
        messages = [await it.consumer.receive() for _ in range(2)]
        it.consumer.negative_acknowledge(messages[1])
        transaction = await it.client.begin_transaction(600)
        for each in messages:
            await transaction.acknowledge(it.consumer, each)
        await anyio.sleep(60)
        assert sent_count(it.broker, "redeliverUnacknowledgedMessages") == 0
        assert it.consumer.statistics().messages_acknowledged == 2
        await transaction.commit()


async def test_a_commit_whose_answer_was_lost_may_be_asked_for_again() -> None:
    async with shop(0) as it:
        transaction = await it.client.begin_transaction()
        await transaction.send(it.producer, b"x")
        it.broker.is_down = True
        it.broker.cut()
        with anyio.move_on_after(5):
            await transaction.commit()
        assert transaction.state is State.COMMITTING
        with pytest.raises(TransactionEnded):
            await transaction.send(it.producer, b"y")
        it.broker.is_down = False
        await transaction.commit()
        assert await it.all_that_comes() == [b"x"]


async def test_a_commit_that_is_cancelled_goes_its_way_and_is_asked_for_once() -> None:
    """A coordinator that is asked twice at a time refuses the second."""
    async with shop(0) as it:
        transaction = await it.client.begin_transaction()
        await transaction.send(it.producer, b"in it")
        it.broker.faults.delay_s_max = 10.0
        for _ in range(3):
            with anyio.move_on_after(0.001):
                await transaction.commit()
        assert transaction.state is State.COMMITTING
        await transaction.commit()
        assert sent_count(it.broker, "endTxn") == 1
        it.broker.faults.delay_s_max = 1.0
        again = await it.client.begin_transaction()
        await again.send(it.producer, b"as well")
        with anyio.move_on_after(0.001):
            await again.commit()
        await anyio.sleep(30)
        assert again.state is State.COMMITTED
        it.broker.faults.delay_s_max = 0.0
        assert await it.all_that_comes() == [b"in it", b"as well"]


async def test_a_client_that_is_closed_waits_for_no_commit() -> None:
    async with shop(0) as it:
        transaction = await it.client.begin_transaction()
        await transaction.send(it.producer, b"in it")
        it.broker.faults.delay_s_max = 3_600.0
        refused: list[ClientClosed] = []

        async def commit() -> None:
            try:
                await transaction.commit()
            except ClientClosed as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(commit)
            await anyio.sleep(0.001)
            it.client._context.pool.close()
        assert len(refused) == 1


async def test_a_service_without_coordinators_says_so() -> None:
    async with client_of(FakeBroker(Faults())) as client:
        with pytest.raises(TransactionCoordinatorNotFound):
            await client.begin_transaction()


async def acknowledge_one(it: Shop, transaction: Transaction) -> None:
    await transaction.acknowledge(it.consumer, await it.consumer.receive())


Calls = dict[str, Callable[[Shop, Transaction], Awaitable[object]]]
CALLS: Calls = {
    "send": lambda it, transaction: transaction.send(it.producer, b"x"),
    "acknowledge": acknowledge_one,
    "commit": lambda _, transaction: transaction.commit(),
    "abort": lambda _, transaction: transaction.abort(),
}
LEGAL: dict[State, dict[str, State]] = {
    State.OPEN: {
        "send": State.OPEN,
        "acknowledge": State.OPEN,
        "commit": State.COMMITTED,
        "abort": State.ABORTED,
    },
    State.FAILED: {"abort": State.ABORTED},
    State.COMMITTING: {"commit": State.COMMITTED},
    State.ABORTING: {"abort": State.ABORTED},
    State.COMMITTED: {},
    State.ABORTED: {},
}
"""What may be called where, and where it leads."""


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("call", CALLS)
async def test_each_call_is_legal_in_each_state_or_refused(state: State, call: str) -> None:
    async with shop(1) as it:
        transaction = await it.client.begin_transaction()
        transaction.state = state
        if call in LEGAL[state]:
            await CALLS[call](it, transaction)
            assert transaction.state is LEGAL[state][call]
        else:
            with pytest.raises(TransactionEnded, match=state.name):
                await CALLS[call](it, transaction)
            assert transaction.state is state


def test_what_is_over_leads_nowhere_and_all_else_to_an_end() -> None:
    assert set(MOVES) == set(State)
    ends = {state for state, following in MOVES.items() if not following}
    assert ends == {State.COMMITTED, State.ABORTED}
    for state in set(State) - ends:
        reached = {state}
        for _ in State:
            reached |= {following for each in reached for following in MOVES[each]}
        assert reached & ends
