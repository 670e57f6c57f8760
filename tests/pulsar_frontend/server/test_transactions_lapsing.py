"""Transactions that time out while only the range of their numbers tells of them.

The rule: one is open until it is on disk that its time was up. From then on it has ended, however
the clock is set.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected
from tests.pulsar_frontend.server.test_transaction_beginnings import number_of, prepared
from tests.pulsar_frontend.server.transacting import TIMEOUT_MS, Refused, begin, end

from arneb_core.testing.faults import FaultyStore
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.transactions.reservations import GIVEN_MS
from arneb_pulsar.transactions.states import TransactionState
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

LATE_MS = TIMEOUT_MS + 2 * GIVEN_MS


class Restarted:
    """A broker that knows of ``transaction`` by its range alone; ``now_ms`` may be set."""

    def __init__(self) -> None:
        self.now_ms = Clock().wall_ms()
        self.clock = Clock(wall_ms=lambda: self.now_ms)
        self.running: Running
        self.client: RawClient
        self.transaction: Any

    @property
    def transactions(self) -> Any:
        return self.running.context.transactions

    @property
    def is_aborted(self) -> bool:
        number = number_of(self.transaction).least_bits
        return self.transactions.outcomes.find(number) is TransactionState.ABORTED

    async def refuses_to_commit(self) -> None:
        """Since its time was up."""
        with pytest.raises(Refused) as refused:
            await end(self.client, self.transaction, commit=True)
        assert refused.value.code == pb.InvalidTxnStatus


@asynccontextmanager
async def restarted(open_broker: OpenBroker, *, starts: bool = True) -> AsyncIterator[Restarted]:
    it = Restarted()
    async with open_broker(it.clock) as running, connected(running.context) as (client,):
        await prepared(client)
        it.transaction = await begin(client)
    async with open_broker(it.clock) as it.running, connected(it.running.context) as (it.client,):
        if starts:
            await it.transactions.start()
        yield it


async def test_a_clock_ahead_ends_nothing_until_that_is_stored(open_broker: OpenBroker) -> None:
    async with restarted(open_broker) as it:
        it.now_ms += LATE_MS
        it.running.store.fail_until_healed()
        await it.transactions.expire(it.now_ms)
        it.running.store.heal()
        assert not it.is_aborted
        await end(it.client, it.transaction, commit=True)


async def test_one_that_is_used_late_is_aborted_at_the_next_look(open_broker: OpenBroker) -> None:
    async with restarted(open_broker) as it:
        it.now_ms += LATE_MS
        it.transactions.join(number_of(it.transaction), None, ["persistent://public/default/out"])
        assert [each.id for each in it.transactions.open] == [number_of(it.transaction)]
        await it.transactions.expire(it.now_ms)
        assert not it.transactions.open
        it.now_ms -= LATE_MS
        await it.refuses_to_commit()


@contextmanager
def held(store: FaultyStore) -> Iterator[None]:
    """Commits are; even a test that fails ends soon."""
    store.hold()
    try:
        yield
    finally:
        store.release()


@pytest.mark.parametrize("is_stored", [True, False])
async def test_who_ends_one_while_its_timeout_is_being_stored_waits_for_that(
    open_broker: OpenBroker, is_stored: bool
) -> None:
    async with restarted(open_broker) as it, trio.open_nursery() as nursery:
        ended = trio.Event()

        async def ask() -> None:
            if is_stored:
                await it.refuses_to_commit()
            else:
                await end(it.client, it.transaction, commit=True)
            ended.set()

        if not is_stored:
            it.running.store.fail_next()
        with held(it.running.store):
            nursery.start_soon(it.transactions.expire, it.now_ms + LATE_MS)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RequestRefused) as refused:
                it.transactions.find(number_of(it.transaction), None)
            assert refused.value.failure.code == pb.InvalidTxnStatus
            assert not it.transactions.open, "it must not open beside its outcome"
            nursery.start_soon(ask)
            for _ in range(5):
                await trio.testing.wait_all_tasks_blocked()
                assert not ended.is_set(), "how it ends is not known yet"
        with trio.fail_after(10):
            await ended.wait()
        assert it.is_aborted == is_stored


async def test_timeouts_are_noticed_while_no_transaction_is_open(open_broker: OpenBroker) -> None:
    async with restarted(open_broker) as it, trio.open_nursery() as nursery:
        nursery.start_soon(it.transactions.run)
        await trio.testing.wait_all_tasks_blocked()
        it.now_ms += LATE_MS
        with trio.fail_after(10):
            while not it.is_aborted:
                await trio.lowlevel.checkpoint()
        it.now_ms -= LATE_MS
        await it.refuses_to_commit()
        nursery.cancel_scope.cancel()


async def test_no_timeout_is_stored_before_it_is_known_what_is_open(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_pulsar.services.transactions.coordinator.CHECK_INTERVAL_S", 0)
    async with restarted(open_broker, starts=False) as it, trio.open_nursery() as nursery:
        it.now_ms += LATE_MS
        before = it.running.store.commits_total
        nursery.start_soon(it.transactions.run)
        for _ in range(50):
            await trio.testing.wait_all_tasks_blocked()
        assert it.running.store.commits_total == before
        await it.transactions.start()
        assert it.is_aborted
        nursery.cancel_scope.cancel()
