"""Transactions that are opened and abandoned: their number and what they hold are bounded."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected
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

from arneb_core.api.entries.position import Position
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.services.transactions.open_transaction import (
    KEPT_BYTES,
    NAME_BYTES,
    TIMEOUT_MS_MAX,
    HeldBytes,
    OpenTransaction,
)
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.transactions.records import Opened
from arneb_pulsar.transactions.states import COORDINATOR, TransactionId
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

real_time = pytest.mark.real_time
"""Of those that have a broker."""


@dataclass(frozen=True)
class FakeTopic:
    """As far as transactions look at one."""

    id: int
    name: str = "t"


SENDS = st.tuples(st.just("send"), st.integers(1, 3), st.integers(1, KEPT_BYTES))
NAMES = st.tuples(st.just("join"), st.text("ab", max_size=2), st.text("ab", max_size=300))
ACKS = st.tuples(st.just("acknowledge"), st.integers(0, 50), st.integers(0, 5))
ENDS = st.tuples(st.just("end"), st.integers(0, 1), st.just(0))
STEPS = st.lists(st.tuples(st.integers(0, 4), SENDS | NAMES | ACKS | ENDS), max_size=60)


@given(STEPS)
def test_all_together_hold_no_more_than_their_bound_and_nothing_when_they_have_ended(
    steps: list[tuple[int, tuple[Any, ...]]],
) -> None:
    held = HeldBytes(3 * KEPT_BYTES)
    transactions: dict[int, OpenTransaction] = {}
    position = 0
    for number, (what, one, other) in steps:
        opened = Opened(0, 1, ("", ""))
        which = transactions.get(number)
        if which is None:
            transaction_id = TransactionId(COORDINATOR, number)
            which = transactions[number] = OpenTransaction(transaction_id, opened, held)
        try:
            if what == "send":
                which.sent_bytes += other
                topic = cast(Topic, FakeTopic(one))
                which.sent(topic, Position(position), [bytes(other)])
                position += 1
            elif what == "join":
                which.join({one, other}, {(one, other)})
            elif what == "acknowledge":
                whole = [Position(each) for each in range(one)]
                parts = {Position(each): (1, 1) for each in range(other)}
                which.expect_acks(whole, parts)
                which.count_acks(whole, parts)
                if one % 2:
                    which.count_acks(whole, parts, -1)
            else:
                transactions.pop(number).forget(committed=bool(one % 2))
        except RequestRefused as refused:
            assert refused.failure.code == pb.TooManyRequests
        assert held.bytes <= held.most
        kept = [each for one in transactions.values() for each in one.sends.values()]
        entries = sum(len(entry) for each in kept for entry in each.kept)
        names = sum(
            sum(NAME_BYTES + len(each) for each in one.partitions)
            + sum(NAME_BYTES + len(topic) + len(name) for topic, name in one.subscriptions)
            for one in transactions.values()
        )
        sending = Counter(topic for one in transactions.values() for topic in one.sends)
        assert held.sending == sending
        acked = sum(one.acked for one in transactions.values())
        assert held.bytes - entries - names >= 16 * acked
        assert acked or held.bytes == entries + names
    for each in transactions.values():
        each.forget(committed=False)
    assert held.bytes == 0
    assert not held.sending


@real_time
async def test_no_more_are_open_than_may_be_however_many_ask_at_once(
    open_broker: OpenBroker,
) -> None:
    async with (
        open_broker(transactions_open_max=10) as running,
        connected(running.context, 2) as (
            one,
            other,
        ),
    ):
        command = pb.CommandNewTxn(request_id=1, txn_ttl_seconds=60_000, tc_id=0)
        for _ in range(20):
            await one.send(command)
            await other.send(command)
        replies = [await client.expect(pb.CommandNewTxnResponse) for client in (one, other) * 20]
        refused = [each.error for each in replies if each.HasField("error")]
        assert refused == [pb.TooManyRequests] * 30
        assert len(running.context.transactions.open) == 10
        taken = next(each for each in replies if not each.HasField("error"))
        await end(one, taken, commit=False)
        await begin(other)


@real_time
async def test_a_time_beyond_all_is_refused_and_the_longest_ends_as_any_other(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        for timeout_ms in (TIMEOUT_MS_MAX + 1, 2**64 - 1):
            with pytest.raises(Refused) as refused:
                await begin(client, timeout_ms)
            assert refused.value.code == pb.NotAllowedError
        for commit in (True, False):
            await end(client, await begin(client, TIMEOUT_MS_MAX), commit=commit)


@real_time
async def test_what_finds_no_room_is_read_back_or_refused_and_comes_again_when_there_is_some(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        memory = running.context.transactions.memory
        await client.producer("in", 2)
        await client.publish(b"|a", b"|b", producer_id=2)
        await client.take(2)
        await client.producer("out")
        await client.subscribe("in", initialPosition=pb.CommandSubscribe.Earliest)
        await client.flow(10)
        ids = [command.message_id for command, _ in await client.take(2)]
        one, other = await begin(client), await begin(client)
        await send(client, one, b"|1")
        memory.most = memory.bytes + 50
        await add(client, one)  # nothing new
        with pytest.raises(Refused) as refused:
            await add(client, one, "out")
        assert refused.value.code == pb.TooManyRequests
        command = pb.CommandAddSubscriptionToTxn(
            request_id=2,
            subscription=[pb.Subscription(topic="in", subscription="s" * 1_000_000)],
            **named(one),
        )
        with pytest.raises(Refused):
            await asked(client, command, pb.CommandAddSubscriptionToTxnResponse)
        await send(client, other, b"|2" + bytes(100) + b"|2", first=1)
        (left_on_disk,) = [
            each
            for each in running.context.transactions.open
            if each.id.least_bits == other.txnid_least_bits
        ]
        assert not left_on_disk.has_kept
        await acknowledge(client, one, ids[0])
        memory.most = memory.bytes
        with pytest.raises(Refused) as refused:
            await acknowledge(client, one, ids[1])
        assert refused.value.code == pb.TooManyRequests
        await end(client, one, commit=True)
        await end(client, other, commit=True)
        assert memory.bytes == 0
        assert running.core.topic("persistent://public/default/out").messages == 2
        subscription = running.core.topic("persistent://public/default/in").subscriptions["s"]
        assert subscription.statistics().backlog_entries == 1
        third = await begin(client)
        memory.most = 1_000_000
        await add(client, third, "out")
        await acknowledge(client, third, ids[1])
        await end(client, third, commit=False)
        assert memory.bytes == 0
