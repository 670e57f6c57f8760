"""What a transaction costs: commits, turns and records, counted."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.server.transacting import (
    TIMEOUT_MS,
    Refused,
    add,
    begin,
    end,
    named,
    send,
)
from tests.pulsar_frontend.session.playbook import received

from arneb_core.api.core import Unit
from arneb_core.api.errors import CommitFailed, TopicFenced
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_pulsar.server.connection import SMALL_UNITS
from arneb_pulsar.services.transactions.held_records import ENDED_TOGETHER
from arneb_pulsar.services.transactions.open_transaction import PER_UNIT
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

MANY = 8


def commits(running: Running) -> Callable[[], int]:
    """How many commits there were since it was asked last, but those of cursors alone."""
    log = running.core._committer._log
    submit, count = log.submit, 0

    def counted(changes: Changes, *args: Any, **kwargs: Any) -> CommitReport | None:
        nonlocal count
        count += bool(changes.blocks)
        return submit(changes, *args, **kwargs)

    def since() -> int:
        nonlocal count
        had, count = count, 0
        return had

    log.submit = counted  # type: ignore[method-assign]
    return since


async def ask(client: RawClient, commands: list[Any], kind: type[Any]) -> list[Any]:
    """The answers to commands that come with one read."""
    await client.stream.send_all(b"".join(received(each).data for each in commands))
    return [await client.expect(kind) for _ in commands]


def begins(count: int) -> list[Any]:
    return [
        pb.CommandNewTxn(request_id=number, txn_ttl_seconds=TIMEOUT_MS, tc_id=0)
        for number in range(count)
    ]


async def test_one_of_ten_messages_is_three_commits(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        await end(worker, await begin(worker), commit=True)  # makes the log of open ones
        since = commits(running)
        transaction = await begin(worker)
        assert since() == 1
        await add(worker, transaction, "persistent://public/default/out")
        assert since() == 0
        sends = b""
        for number in range(10):
            command = pb.CommandSend(producer_id=1, sequence_id=number, **named(transaction))
            sends += received(command, body=body_of(b"|", sequence_id=number)).data
        await worker.stream.send_all(sends)
        for _ in range(10):
            await worker.expect(pb.CommandSendReceipt)
        assert since() == 1
        await end(worker, transaction, commit=True)
        assert since() == 1
        assert running.core.topic("persistent://public/default/out").messages == 10


async def test_those_whose_requests_come_with_one_read_share_commits(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        await end(worker, await begin(worker), commit=True)
        since = commits(running)
        opened = await ask(worker, begins(MANY), pb.CommandNewTxnResponse)
        assert len({each.txnid_least_bits for each in opened}) == MANY
        assert since() == 1
        for number, each in enumerate(opened):
            await send(worker, each, b"|%d" % number, first=number)
        since()
        ends = [
            pb.CommandEndTxn(request_id=number, txn_action=pb.COMMIT, **named(each))
            for number, each in enumerate(opened)
        ]
        await ask(worker, ends, pb.CommandEndTxnResponse)
        assert since() == 1
        assert running.core.topic("persistent://public/default/out").messages == MANY


@pytest.mark.parametrize("records", [0, 4 * PER_UNIT])
async def test_a_read_full_of_requests_is_many_turns(
    open_broker: OpenBroker, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        opened = [await begin(worker) for _ in range(3 * SMALL_UNITS)]
        for each in opened:
            if records:
                await send(worker, each, *[b"|"] * records)
        turns: list[list[int]] = []
        turn_begins, end_at_once = (
            running.core.turn_begins,
            running.context.transactions.end_at_once,
        )

        def begun(whose: int) -> None:
            turns.append([])
            turn_begins(whose)

        def ended(transaction: TransactionId, *args: Any, **kwargs: Any) -> bool:
            # More than its messages, by what the commits that brought them recorded of it.
            turns[-1].append(1 + running.context.transactions.units(transaction))
            return end_at_once(transaction, *args, **kwargs)

        monkeypatch.setattr(running.core, "turn_begins", begun)
        monkeypatch.setattr(running.context.transactions, "end_at_once", ended)
        ends = [
            pb.CommandEndTxn(request_id=number, txn_action=pb.ABORT, **named(each))
            for number, each in enumerate(opened)
        ]
        await ask(worker, ends, pb.CommandEndTxnResponse)
        assert sum(map(len, turns)) == len(opened)
        assert min(map(min, turns)) >= 1 + records // PER_UNIT
        assert all(sum(each[:-1]) < SMALL_UNITS for each in turns)
        assert all(sum(each) >= SMALL_UNITS for each in turns[:-1])


async def test_records_of_those_that_have_ended_go_together(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        held = running.context.transactions.held
        for number in range(ENDED_TOGETHER // 2 - 1):
            transaction = await begin(worker)
            await send(worker, transaction, b"|", first=number)
            await end(worker, transaction, commit=number % 2 == 0)
        topic = held.topic
        assert topic is not None
        subscription = topic.subscriptions["open"]
        assert len(subscription.unacknowledged(ENDED_TOGETHER)) == ENDED_TOGETHER - 2
        last = await begin(worker)
        await send(worker, last, b"|", first=ENDED_TOGETHER)
        await end(worker, last, commit=True)
        assert not subscription.unacknowledged(ENDED_TOGETHER)
        left = await begin(worker)
        await send(worker, left, b"|", first=ENDED_TOGETHER + 1)
        await end(worker, await begin(worker), commit=True)
        await held.acknowledge_ended()
        positions = subscription.unacknowledged(ENDED_TOGETHER)
        (open_one,) = running.context.transactions.open
        assert [*open_one.records] == positions
        assert len(positions) == 2, "one record for the opening, one for the message"
        assert open_one.id.least_bits == left.txnid_least_bits


async def test_a_commit_to_a_topic_that_goes_at_that_moment_is_tried_again(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        transaction = await begin(worker)
        await send(worker, transaction, b"|1")
        core, units = running.core, list[Unit]()
        commit = core.commit

        def fails_once(unit: Unit, done: Callable[[CommitFailed | None], None]) -> bool:
            units.append(unit)
            if len(units) == 1:
                core.tell(done, TopicFenced("the topic goes"))
                return False
            return commit(unit, done)

        monkeypatch.setattr(core, "commit", fails_once)
        await end(worker, transaction, commit=True)
        assert len(units) == 2
        assert core.topic("persistent://public/default/out").messages == 1


async def test_one_that_could_not_be_ended_at_once_is_open_as_before(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        transaction = await begin(worker)
        await send(worker, transaction, b"|1")
        (open_one,) = running.context.transactions.open
        for commit in (True, False):
            running.store.fail_until_healed()
            with pytest.raises(Refused) as refused:
                await end(worker, transaction, commit=commit)
            assert refused.value.code == pb.PersistenceError
            running.store.heal()
            assert [*running.context.transactions.open] == [open_one]
        await end(worker, transaction, commit=True)
        assert not running.context.transactions.open
        assert running.core.topic("persistent://public/default/out").messages == 1


async def test_ending_at_once_after_sends_ends_all_of_them(open_broker: OpenBroker) -> None:
    """SENDs wait to be one run; what is asked for behind them does not pass them."""
    async with open_broker() as running, connected(running.context) as (worker,):
        await worker.producer("out")
        await end(worker, await begin(worker), commit=True)
        transaction = await begin(worker)
        await add(worker, transaction, "persistent://public/default/out")
        data = b""
        for number in range(3):
            command = pb.CommandSend(producer_id=1, sequence_id=number, **named(transaction))
            data += received(command, body=body_of(b"|", sequence_id=number)).data
        ending = pb.CommandEndTxn(request_id=3, txn_action=pb.COMMIT, **named(transaction))
        await worker.stream.send_all(data + received(ending).data)
        for _ in range(3):
            await worker.expect(pb.CommandSendReceipt)
        answer = await worker.expect(pb.CommandEndTxnResponse)
        assert not answer.HasField("error")
        assert running.core.topic("persistent://public/default/out").messages == 3


async def test_it_is_retried_without_a_deleted_topic_though_its_client_has_left(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_broker() as running:
        commit, held = type(running.core).commit, list[Any]()
        is_held, is_over = trio.Event(), trio.Event()

        def hold_first(core: Any, unit: Unit, done: Any) -> Any:
            def note(error: CommitFailed | None) -> None:
                done(error)
                is_over.set()

            if not unit.passes_over_gone or is_held.is_set():
                return commit(core, unit, note if unit.passes_over_gone else done)
            held.append(done)
            is_held.set()
            return False

        async with connected(running.context) as (worker,):
            await worker.producer("out")
            await end(worker, await begin(worker), commit=True)
            transaction = await begin(worker)
            await send(worker, transaction, b"a")
            monkeypatch.setattr(type(running.core), "commit", hold_first)
            ending = pb.CommandEndTxn(request_id=3, txn_action=pb.COMMIT, **named(transaction))
            await worker.stream.send_all(received(ending).data)
            await is_held.wait()
        await trio.testing.wait_all_tasks_blocked()
        held[0](TopicFenced("orders"))
        with trio.fail_after(10):
            await is_over.wait()
        assert not running.context.transactions.open
        assert running.core.topic("persistent://public/default/out").messages == 1
