"""Starting over: a turn that fails half-way loses no message, and affects no other subscription."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure, Limits
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.scheduling.maintenance import READ_RETRY_S
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.subscription.dispatching.dispatch_loop import DispatchLoop
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.testing.engine_kit import RecordingSink, attach, pass_time, publish, quiet

PIECES: list[tuple[type, str]] = [
    (BacklogReader, "take"),
    (BacklogReader, "peek"),
    (ReplaySet, "take"),
    (ReplaySet, "peek"),
    (Delivery, "_run"),
    (Delivery, "hand_out"),
    (DispatchLoop, "turn"),
]
"""Parts of a turn that may fail."""


@contextmanager
def failing(piece: tuple[type, str], of: LogSubscription, *, after: bool) -> Iterator[list[int]]:
    """Have one part of a turn of ``of`` fail, once, before or after it has done its work."""
    kind, name = piece
    original, left = getattr(kind, name), [1]
    state = of.machine.state
    parts = {state.reader, state.replay, of.machine.delivery, of.machine.loop}

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        hit = self in parts and left[0] > 0
        if hit and not after:
            left[0] = 0
            raise KeyError("a defect")
        result = original(self, *args, **kwargs)
        if hit:
            left[0] = 0
            raise KeyError("a defect")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, broken)
        yield left


def subscription_of(engine: Engine, topic: str = "t") -> LogSubscription:
    [found] = engine.topic(topic).subscriptions.values()
    return found


TYPES = (
    SubscriptionType.SHARED,
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.FAILOVER,
    SubscriptionType.KEY_SHARED,
)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: f"{piece[0].__name__}.{piece[1]}")
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.value)
async def test_nothing_is_lost_and_nothing_acknowledged_comes_back(
    tmp_path: Path, kind: SubscriptionType, piece: tuple[type, str], after: bool
) -> None:
    seed = random.Random(f"{kind} {piece} {after}")
    async with open_engine(tmp_path / "data") as engine:
        for name in ("t", "other"):
            topic = await engine.create_topic(name)
            await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        _, others = attach(subscription_of(engine, "other"), permits=1_000)
        subscription = subscription_of(engine)
        bodies = [b"%d" % number for number in range(60)]
        await publish(engine, "t", bodies[:40])
        first, sink = attach(subscription, type=kind, permits=20)
        await quiet(engine)
        # Some are acknowledged, some came back, some are in flight, the rest was not read.
        done = set(seed.sample(sink.positions, 7))
        first.acknowledge(sorted(done))  # type: ignore[attr-defined]
        back = [each for each in sink.positions if each not in done][::3]
        with failing(piece, subscription, after=after) as left:
            first.release(back, count=False)  # type: ignore[attr-defined]
            first.flow(30)  # type: ignore[attr-defined]
            await publish(engine, "t", bodies[40:])
            await publish(engine, "other", [b"served"])
            await quiet(engine)
            assert others.bodies == [b"served"], "another subscription was not served"
            if left[0]:  # that part has no part in such turns
                assert piece[0] is ReplaySet or piece == (Delivery, "hand_out")
                return
        assert sink.closed == ["failed"]
        consumer, later = attach(subscription, type=kind, permits=1_000)
        await pass_time(engine, READ_RETRY_S + 1)
        unacknowledged = {
            each for each in range(sink.positions[0], sink.positions[0] + 60) if each not in done
        }
        assert set(later.positions) == unacknowledged
        assert len(later.positions) == len(unacknowledged), "something came twice"
        assert unacknowledged & set(sink.positions) <= later.redelivered
        consumer.acknowledge(later.positions)  # type: ignore[attr-defined]
        await quiet(engine)
        assert subscription.machine.state.acks.backlog == 0


class Target:
    """Moves what departs to another topic, and can be told to fail."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.failures = 0
        self.reasons: list[Departure] = []

    def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
        if self.failures:
            self.failures -= 1
            raise KeyError("a defect")
        self.reasons += [reason] * len(run.positions)
        to = self._engine.topic("dead")
        unit = Unit([(to, run.entries)], [(holder, run.positions)])
        self._engine.commit(unit, lambda error: None)


async def dead_of(engine: Engine) -> list[bytes]:
    sink = RecordingSink()
    subscription = await engine.topic("dead").subscribe("s", initial=InitialPosition.EARLIEST)
    _, sink = attach(subscription, permits=1_000)
    await quiet(engine)
    return sorted(sink.bodies, key=int)


@pytest.mark.parametrize("failures", [1, 2, 5])
@pytest.mark.parametrize("how", ["too many", "expired", "rejected"])
async def test_what_could_not_be_handed_over_is_handed_over_later(
    tmp_path: Path, how: str, failures: int
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        await engine.create_topic("dead")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        target = Target(engine)
        target.failures = failures
        limits = {
            "too many": Limits(ready_messages_max=3),
            "expired": Limits(message_ttl_ms=1),
            "rejected": Limits(),
        }[how]
        subscription.limit(limits, target)
        consumer, sink = attach(subscription)
        await publish(engine, "t", [b"%d" % number for number in range(10)])
        if how == "rejected":
            consumer.flow(7)  # type: ignore[attr-defined]
            await quiet(engine)
            consumer.reject(sink.positions)  # type: ignore[attr-defined]
        for _ in range(failures):
            await pass_time(engine, READ_RETRY_S + 1)
        gone = {"too many": 7, "expired": 10, "rejected": 7}[how]
        assert await dead_of(engine) == [b"%d" % number for number in range(gone)]
        assert len(target.reasons) == gone
        assert len(set(target.reasons)) == 1
        assert subscription.machine.state.acks.backlog == 10 - gone
        consumer.flow(100)  # type: ignore[attr-defined]
        await quiet(engine)
        rest = [b"%d" % number for number in range(gone, 10)]
        assert sink.bodies[-len(rest) :] == rest if rest else True


@pytest.mark.parametrize("piece", [(BacklogReader, "take"), (DispatchLoop, "turn")])
async def test_what_is_with_the_target_stays_there(tmp_path: Path, piece: tuple[type, str]) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        await engine.create_topic("dead")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        held: list[tuple[Deliveries, Consumer]] = []

        class Waiting:
            def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
                held.append((run, holder))

        subscription.limit(Limits(ready_messages_max=4), Waiting())
        await publish(engine, "t", [b"%d" % number for number in range(10)])
        await quiet(engine)
        consumer, _ = attach(subscription)
        with failing(piece, subscription, after=False):
            consumer.flow(2)  # type: ignore[attr-defined]
            await quiet(engine)
        for run, holder in held:
            await engine.committed(
                Unit([(engine.topic("dead"), run.entries)], [(holder, run.positions)])
            )
        _, later = attach(subscription, permits=100)
        await pass_time(engine, READ_RETRY_S + 1)
        assert await dead_of(engine) == [b"%d" % number for number in range(6)]
        assert later.bodies == [b"%d" % number for number in range(6, 10)]


async def test_what_is_delayed_comes_at_its_time_and_once(tmp_path: Path) -> None:
    now = [1_000_000]
    async with open_engine(tmp_path / "data", now_ms=lambda: now[0]) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        entries = [
            EntryHeader(
                Origin.AMQP, messages=1, deliver_at_ms=now[0] + (60_000 if number % 2 else 0)
            ).pack()
            + b"%d" % number
            for number in range(20)
        ]
        engine.expect_delays(topic)
        await engine.committed(Unit([(topic, entries)]))
        first, sink = attach(subscription, permits=5)
        await quiet(engine)
        assert {int(body) % 2 for body in sink.bodies} == {0}
        with failing((BacklogReader, "take"), subscription, after=False):
            first.flow(5)  # type: ignore[attr-defined]
            await quiet(engine)
        assert sink.closed == ["failed"]
        _, later = attach(subscription, permits=100)
        await pass_time(engine, READ_RETRY_S + 1)
        assert sorted(later.bodies, key=int) == [b"%d" % number for number in range(0, 20, 2)]
        now[0] += 61_000
        subscription.machine.tick()
        await pass_time(engine, READ_RETRY_S + 1)
        assert sorted(map(int, later.bodies)) == list(range(20))


async def test_a_subscription_that_fails_again_and_again_costs_a_turn_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turns = 0

    def broken(self: DispatchLoop) -> int:
        nonlocal turns
        turns += 1
        raise KeyError("a defect")

    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        subscription.limit(Limits(ready_messages_max=4), None)  # so that it has turns by itself
        await quiet(engine)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DispatchLoop, "turn", broken)
            began = trio.current_time()
            for _ in range(50):
                await publish(engine, "t", [b"x"])
            await pass_time(engine, 4 * READ_RETRY_S + 1)
            # The clock jumps whenever only the disk is waited for.
            assert 2 <= turns <= (trio.current_time() - began) / READ_RETRY_S + 2
        await pass_time(engine, READ_RETRY_S + 1)
        assert subscription.ready_messages == 4
    assert caplog.text.count("rebuilt from the store") == turns
