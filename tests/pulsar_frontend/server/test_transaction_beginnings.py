"""How transactions begin: without a commit each, and none is lost by a crash."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected
from tests.pulsar_frontend.server.transacting import Refused, acknowledge, add, begin, end, send

from arneb_core.api.core import Unit
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.callbacks import Done
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.testing.engine_kit import quiet
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.context import BrokerContext, make_context
from arneb_pulsar.services.transactions.beginning import ERA_LEFT_MIN, ERA_NUMBERS, IDLE_S
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.transactions.outcomes import KEPT_MS
from arneb_pulsar.transactions.reservations import COUNT_MIN, GIVEN_MS, RESERVED
from arneb_pulsar.transactions.states import COORDINATOR, ERA, ERA_BITS, TransactionId
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

EARLIEST = pb.CommandSubscribe.Earliest
TIMEOUT_MS = 60_000


def number_of(transaction: Any) -> TransactionId:
    return TransactionId(COORDINATOR, transaction.txnid_least_bits)


def commits(running: Running) -> int:
    core = running.core
    assert isinstance(core, Engine)
    return core._committer.commits_total


async def prepared(client: RawClient) -> None:
    """The first two are recorded each, and a range is stored with the second."""
    for _ in range(2):
        await end(client, await begin(client), commit=True)


@asynccontextmanager
async def after_a_kill(
    directory: Path, name: str, now_ms: int | None = None, of: str = "data"
) -> AsyncIterator[tuple[BrokerContext, RawClient]]:
    """A broker on what a SIGKILL at this moment leaves."""
    shutil.copytree(directory / of, directory / name)
    clock = Clock() if now_ms is None else Clock(wall_ms=lambda: now_ms)
    async with open_engine(directory / name) as core:
        context = make_context(core, PulsarConfig(), clock)
        await context.transactions.start()
        async with connected(context) as (client,):
            yield context, client


async def test_opening_many_transactions_waits_for_no_commit(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        await begin(client)
        core = running.core
        assert isinstance(core, Engine)
        await quiet(core)
        before = commits(running)
        numbers = {number_of(await begin(client)) for _ in range(10)}
        assert (len(numbers), commits(running) - before) == (10, 0)
        opened = running.context.transactions.open
        assert {each.id for each in opened} > numbers


async def test_one_in_which_nothing_was_done_is_open_after_a_crash(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("out")
        await prepared(client)
        sent, empty, aborted = [await begin(client) for _ in range(3)]
    now_ms = Clock().wall_ms()
    async with after_a_kill(tmp_path, "killed", now_ms) as (context, client):
        assert not context.transactions.open, "nobody asked for any"
        await client.producer("out")
        await add(client, sent, "out")
        await send(client, sent, b"|1", b"|2")
        for _ in range(2):
            await end(client, sent, commit=True)
            await end(client, empty, commit=True)
            await end(client, aborted, commit=False)
        with pytest.raises(Refused) as refused:
            await end(client, aborted, commit=True)
        assert refused.value.code == pb.InvalidTxnStatus
        assert context.core.topics["persistent://public/default/out"].messages == 2  # type: ignore[attr-defined]
        assert number_of(await begin(client)) > number_of(aborted)


async def test_what_was_done_first_in_one_brings_its_record_along(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("out")
        await client.producer("in", 2)
        await client.subscribe("in", initialPosition=EARLIEST)
        await client.flow(10)
        await client.publish(b"|a", producer_id=2)
        await client.take(1)
        ((message, _),) = await client.take(1)
        await prepared(client)
        sent, acked = await begin(client), await begin(client)
        await send(client, sent, b"|1", b"|2")
        await acknowledge(client, acked, message.message_id)
        opened = {each.id: each.opened for each in running.context.transactions.open}
    async with after_a_kill(tmp_path, "killed") as (context, client):
        found = {each.id: each.opened for each in context.transactions.open}
        assert found == opened, "exactly the transactions in which something was done must be open"
        await end(client, sent, commit=True)
        await end(client, acked, commit=True)
        assert context.core.topics["persistent://public/default/out"].messages == 2  # type: ignore[attr-defined]
        subscription = context.core.topics["persistent://public/default/in"].subscriptions["s"]
        assert subscription.statistics().backlog_entries == 0


async def test_it_belongs_to_its_opener_after_a_crash_too(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        number = number_of(await begin(client))
    async with after_a_kill(tmp_path, "killed") as (context, _):
        with pytest.raises(RequestRefused) as refused:
            context.transactions.find(number, Caller("somebody else"))
        assert refused.value.failure.code == pb.AuthorizationError
        assert not context.transactions.open, "a stranger's request must not make it open"
        assert context.transactions.find(number, None) in context.transactions.open


async def test_a_transaction_lives_as_long_as_its_timeout(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        transaction, other = await begin(client), await begin(client)
        now_ms = Clock().wall_ms()
    until_ms = now_ms + TIMEOUT_MS
    async with after_a_kill(tmp_path, "before", until_ms - 2_000) as (context, client):
        await add(client, transaction, "out")
    async with after_a_kill(tmp_path, "after", until_ms + GIVEN_MS) as (context, client):
        for each in (transaction, other):
            with pytest.raises(Refused) as refused:
                await end(client, each, commit=True)
            assert refused.value.code == pb.InvalidTxnStatus
        await end(client, transaction, commit=False)
    async with after_a_kill(tmp_path, "late", until_ms + GIVEN_MS + KEPT_MS) as (context, client):
        context.transactions._patience._since_s -= KEPT_MS / 1000
        for _ in range(2):
            await context.transactions.gather(until_ms + GIVEN_MS + KEPT_MS)
        assert not context.core.metadata(RESERVED)
        with pytest.raises(Refused) as refused:
            await end(client, transaction, commit=True)
        assert refused.value.code == pb.TransactionNotFound


async def test_one_that_timed_out_opens_no_more_when_the_clock_is_set_back(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    """Nothing was done in it, so only its range is known, and from the start on that it is over."""
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        transaction, ended = await begin(client), await begin(client)
        await end(client, ended, commit=True)
    now_ms = Clock().wall_ms()
    late_ms = now_ms + TIMEOUT_MS + 2 * KEPT_MS
    async with after_a_kill(tmp_path, "late", late_ms) as (_, client):
        with pytest.raises(Refused) as refused:
            await end(client, transaction, commit=True)
        assert refused.value.code == pb.InvalidTxnStatus
    async with after_a_kill(tmp_path, "back", now_ms, "late") as (_, client):
        with pytest.raises(Refused) as refused:
            await end(client, transaction, commit=True)
        assert refused.value.code == pb.InvalidTxnStatus
        await end(client, transaction, commit=False)
        await end(client, ended, commit=True)


async def test_one_that_is_used_stays_open_when_its_range_goes(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("out")
        await prepared(client)
        transaction = await begin(client)
        now_ms = Clock().wall_ms()
    async with after_a_kill(tmp_path, "killed", now_ms) as (context, client):
        await client.producer("out")
        await add(client, transaction, "out")
        await send(client, transaction, b"|1")
        await context.transactions.gather(now_ms + TIMEOUT_MS + GIVEN_MS)
        assert not context.core.metadata(RESERVED)
        assert context.transactions.outcomes.find(transaction.txnid_least_bits) is None
        await end(client, transaction, commit=True)
        with pytest.raises(Refused) as refused:
            await end(client, transaction, commit=False)
        assert refused.value.code == pb.InvalidTxnStatus
        assert context.core.topic("persistent://public/default/out").last is not None


async def test_one_that_ended_while_the_clock_was_set_back_opens_no_more(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    """It was known by its range alone, which says when it was opened at the latest."""
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        transaction = await begin(client)
        now_ms = Clock().wall_ms()
        await running.context.transactions.gather(now_ms)  # outcomes of others are in another row
    set_back_ms, nearly_ms = now_ms - 2 * KEPT_MS, now_ms - KEPT_MS + 2 * TIMEOUT_MS
    async with after_a_kill(tmp_path, "killed", set_back_ms) as (context, client):
        await end(client, transaction, commit=True)
        await context.transactions.gather(set_back_ms)
        await context.transactions.gather(nearly_ms)
        context.transactions._patience._since_s -= KEPT_MS / 1000
        await context.transactions.gather(nearly_ms)
        for commit in (False, True):
            with pytest.raises(Refused) if not commit else nullcontext():
                await end(client, transaction, commit=commit)


async def test_what_stays_idle_is_recorded(open_broker: OpenBroker, tmp_path: Path) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        transactions, core = running.context.transactions, running.core
        assert isinstance(core, Engine)
        await prepared(client)
        idle = await begin(client)
        beginning = transactions._beginning
        for _ in range(2):
            beginning._looked_s -= IDLE_S
            await beginning.record_idle()
        await quiet(core)
        (found,) = transactions.open
        assert found.is_recorded and len(found.records) == 1
        await transactions.gather(running.context.clock.wall_ms() + GIVEN_MS)
        assert not core.metadata(RESERVED), "its range is not needed"
    async with after_a_kill(tmp_path, "killed") as (context, client):
        assert [each.id for each in context.transactions.open] == [number_of(idle)]
        await end(client, idle, commit=True)


async def test_thousands_that_are_idle_are_recorded_some_a_turn_and_each_once(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the disk takes."""
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        await begin(client)
        await quiet(running.core)
        beginning, records = running.context.transactions._beginning, list[int]()
        keep = beginning._held.append

        def kept(entries: list[bytes], *args: Any) -> None:
            records.append(len(entries))
            keep(entries, *args)

        monkeypatch.setattr(beginning._held, "append", kept)
        monkeypatch.setattr("arneb_pulsar.services.transactions.beginning.RECORDED_TOGETHER", 2)
        for _ in range(9):
            await begin(client)
        running.store.hold()
        passes = 0

        async def count() -> None:
            nonlocal passes
            while True:
                await trio.lowlevel.checkpoint()
                passes += 1

        for _ in range(5):
            beginning._looked_s -= IDLE_S
            async with trio.open_nursery() as nursery:
                nursery.start_soon(count)
                await beginning.record_idle()
                nursery.cancel_scope.cancel()
        running.store.release()
        assert records == [2, 2, 2, 2, 2]
        assert passes, "others must get turns in between"


async def test_a_range_that_cannot_be_stored_is_tried_again(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await prepared(client)
        core, failed = running.core, list[Unit]()
        commit = core.commit

        def fails_once(unit: Unit, done: Done) -> bool:
            if not failed and unit.metadata[0][0].startswith(RESERVED):
                failed.append(unit)
                done(StoreFailed("as if the disk were broken"))
                return False
            return commit(unit, done)

        monkeypatch.setattr(core, "commit", fails_once)
        for _ in range(2 * COUNT_MIN):
            await end(client, await begin(client), commit=True)
        assert failed
        reservations = running.context.transactions._beginning._reservations
        assert len(reservations._stored) >= 2, (
            "a later reservation must be stored after the failed one"
        )


async def test_two_things_that_are_done_first_at_the_same_moment_both_count(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    """Each brings the record of its transaction along, as nobody knows which will be stored."""
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        await client.producer("out")
        await other.producer("out")
        await prepared(client)
        transaction = await begin(client)
        async with trio.open_nursery() as nursery:
            for each, payload in ((client, b"|1"), (other, b"|2")):
                nursery.start_soon(
                    lambda each=each, payload=payload: send(each, transaction, payload)
                )
        (found,) = running.context.transactions.open
        held = len(found.records)
    assert held == 4, "two messages, each with the record of its transaction"
    async with after_a_kill(tmp_path, "killed") as (context, client):
        await end(client, transaction, commit=True)
        assert context.core.topics["persistent://public/default/out"].messages == 2  # type: ignore[attr-defined]
        await context.transactions.held.acknowledge_ended()
        topic = context.transactions.held.topic
        assert topic is not None
        assert topic.subscriptions["open"].statistics().backlog_entries == 0


async def test_an_era_that_has_no_numbers_left_is_followed_by_another(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        first = number_of(await begin(client)).least_bits
        beginning = running.context.transactions._beginning
        beginning.latest = (first >> ERA_BITS << ERA_BITS) + ERA_NUMBERS - ERA_LEFT_MIN
        last = number_of(await begin(client, 2_000)).least_bits
        following = number_of(await begin(client, 3_000)).least_bits
        eras = [each >> ERA_BITS for each in (first, last, following)]
        assert eras == [eras[0], eras[0], eras[0] + 1]
        kept = running.core.metadata(ERA)[ERA]
        assert int.from_bytes(kept, "big") == eras[-1], (
            "no two processes may begin with the same number"
        )
