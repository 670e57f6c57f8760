"""Withheld entries: nobody gets them, they stay unacknowledged, and they come back or are done."""

from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import AlreadyAcknowledged
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.testing.engine_kit import append, attach, make_entry, quiet

SHARED, EXCLUSIVE = SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE


async def filled(engine: Engine, sizes: list[int]) -> tuple[Subscription, list[Position]]:
    """A subscription of a topic with a batch of each size."""
    topic = await engine.create_topic("t")
    subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
    first = await append(engine, "t", [make_entry(b"%d" % each, each) for each in sizes])
    return subscription, [Position(first + index) for index in range(len(sizes))]


async def settled(engine: Engine, subscription: Subscription, unit: Unit) -> None:
    """Commit what transactions acknowledged."""
    await engine.committed(unit)
    await quiet(engine)


async def test_what_is_withheld_outlives_its_consumer_and_the_start_of_another(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1, 1, 1])
        first, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.positions == positions
        subscription.withhold([positions[1]], {})
        first.detach()  # type: ignore[attr-defined]
        _, again = attach(subscription, permits=10)
        await quiet(engine)
        assert again.positions == [positions[0], positions[2]]
        assert subscription.ready_messages == 0
        assert subscription.statistics().backlog_entries == 3
    async with open_engine(data_dir) as engine:
        subscription = engine.topic("t").subscriptions["s"]
        holder = subscription.withhold([positions[1]], {}, again=True)
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.positions == [positions[0], positions[2]], "nothing was acknowledged on disk"
        await settled(engine, subscription, Unit(acks=[(holder, [positions[1]])]))
        assert subscription.unacknowledged(9) == [positions[0], positions[2]]


async def test_what_is_given_back_comes_again_in_its_place(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1, 1, 1])
        subscription.withhold([positions[1]], {})
        _, sink = attach(subscription, permits=10, type=EXCLUSIVE)
        await quiet(engine)
        assert sink.positions == [positions[0], positions[2]]
        subscription.give_back([positions[1]], {})
        await quiet(engine)
        assert sink.positions == [positions[0], positions[2], positions[1]]


async def test_a_batch_of_which_a_message_is_given_back_comes_again_with_what_is_left_of_it(
    data_dir: Path,
) -> None:
    # Java's client acknowledges a batch when it has all of it, counted since it came last.
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [4, 2])
        consumer, sink = attach(subscription, permits=10)
        other, _ = attach(subscription)
        await quiet(engine)
        consumer.acknowledge_messages(positions[0], 0b1000)  # type: ignore[attr-defined]
        subscription.withhold([], {positions[0]: (0b0001, 4)})
        subscription.withhold([], {positions[0]: (0b0010, 4)})
        subscription.give_back([], {positions[0]: 0b0001})
        await quiet(engine)
        assert sink.positions == [*positions, positions[0]]
        assert sink.runs[-1].masks == {positions[0]: 0b0101}
        assert sink.runs[-1].redelivery_counts == {positions[0]: 1}
        assert (consumer.in_flight, other.in_flight) == (4, 0)  # type: ignore[attr-defined]
        consumer.acknowledge([positions[0]])  # type: ignore[attr-defined]
        assert subscription.withheld_of(positions[0]) == 0b0010


async def test_what_was_read_ahead_and_withheld_meanwhile_comes_when_it_is_given_back(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1] * 5)
        consumer, sink = attach(subscription, permits=1)
        await quiet(engine)
        subscription.withhold(positions[2:4], {})
        consumer.flow(1)  # type: ignore[attr-defined]
        await quiet(engine)
        subscription.give_back([positions[3]], {})
        consumer.flow(10)  # type: ignore[attr-defined]
        await quiet(engine)
        assert sorted(sink.positions) == [*positions[:2], *positions[3:]]
        subscription.give_back([positions[2]], {})
        await quiet(engine)
        assert sorted(sink.positions) == positions


async def test_a_transaction_conflicts_with_an_earlier_one(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1, 3, 1])
        consumer, _ = attach(subscription, permits=10)
        await quiet(engine)
        consumer.acknowledge([positions[0]])  # type: ignore[attr-defined]
        consumer.acknowledge_messages(positions[1], 0b001)  # type: ignore[attr-defined]
        for whole, parts in (
            ([positions[0]], {}),
            ([], {positions[1]: (0b011, 3)}),
            ([positions[2], positions[0]], {}),
        ):
            with pytest.raises(AlreadyAcknowledged):
                subscription.withhold(whole, parts)
        subscription.withhold([positions[2]], {positions[1]: (0b010, 3)})
        for whole, parts in (
            ([positions[1]], {}),
            ([], {positions[1]: (0b110, 3)}),
            ([positions[2]], {}),
            ([], {positions[2]: (0b1, 1)}),
        ):
            with pytest.raises(AlreadyAcknowledged):
                subscription.withhold(whole, parts)
        subscription.withhold([], {positions[1]: (0b100, 3)})


@pytest.mark.parametrize("ends", ["commit", "abort"])
async def test_a_batch_of_one_message_is_withheld_by_its_index(data_dir: Path, ends: str) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1, 1])
        holder = subscription.withhold([], {positions[0]: (0b1, 1)})
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.positions == [positions[1]]
        with pytest.raises(AlreadyAcknowledged):
            subscription.withhold([], {positions[0]: (0b1, 1)})
        if ends == "commit":
            await settled(engine, subscription, Unit(parts=[(holder, {positions[0]: 0b1})]))
            assert subscription.unacknowledged(9) == [positions[1]]
        else:
            subscription.give_back([], {positions[0]: 0b1})
            await quiet(engine)
            assert sink.positions == [positions[1], positions[0]]


async def test_a_seek_lets_go_of_what_is_withheld(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1, 3])
        holder = subscription.withhold([positions[0]], {positions[1]: (0b010, 3)})
        await subscription.seek(positions[0])
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.positions == positions
        subscription.give_back([positions[0]], {positions[1]: 0b010})
        unit = Unit(acks=[(holder, [positions[0]])], parts=[(holder, {positions[1]: 0b010})])
        await settled(engine, subscription, unit)
        assert sink.positions == positions
        assert subscription.unacknowledged(9) == positions
        assert not subscription.masks


async def test_what_fails_to_be_committed_stays_withheld(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription, positions = await filled(engine, [1, 3])
        holder = subscription.withhold([positions[0]], {positions[1]: (0b010, 3)})
        taken = holder.take_for_unit([positions[0]], {positions[1]: 0b010})  # type: ignore[attr-defined]
        holder.back_from_unit(taken)  # type: ignore[attr-defined]
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.positions == [positions[1]]
        assert sink.runs[0].masks == {positions[1]: 0b101}
        subscription.give_back([positions[0]], {positions[1]: 0b010})
        await quiet(engine)
        assert sorted(sink.positions) == [positions[0], positions[1], positions[1]]


WITHHOLDING = ("withhold", "withhold", "part", "part", "commit", "abort")
OTHERS = ("plain", "release", "leave", "come", "restart", "purge")
STEPS = st.lists(
    st.tuples(st.sampled_from(WITHHOLDING + OTHERS), st.integers(0, 4), st.integers(1, 7)),
    max_size=24,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, shared=st.booleans())
def test_every_message_is_acknowledged_withheld_or_at_a_consumer(
    steps: list[tuple[str, int, int]], shared: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trio.run(play, tmp_path_factory.mktemp("data"), steps, SHARED if shared else EXCLUSIVE)


async def play(path: Path, steps: list[tuple[str, int, int]], kind: SubscriptionType) -> None:
    """Messages by entry and bit: whoever asks at the end has all that is neither acknowledged nor
    withheld, once."""
    sizes = [1, 3, 1, 3, 2]
    withheld: dict[int, int] = {}
    acknowledged: dict[int, int] = {}
    segments: list[list[tuple[str, int, int]]] = [[]]
    for step in steps:
        if step[0] == "restart":
            segments.append([])
        else:
            segments[-1].append(step)
    positions: list[Position] = []
    for segment in segments:
        async with open_engine(path) as engine:
            if not positions:
                subscription, positions = await filled(engine, sizes)
            subscription = engine.topic("t").subscriptions["s"]
            parts = {positions[i]: (mask, sizes[i]) for i, mask in withheld.items()}
            if parts:
                subscription.withhold([], parts, again=True)
            consumer, sink = attach(subscription, permits=100, type=kind)
            await quiet(engine)
            for what, index, mask in segment:
                position, full = positions[index], (1 << sizes[index]) - 1
                free = full & ~acknowledged.get(index, 0) & ~withheld.get(index, 0)
                mask &= full
                if what in {"withhold", "part"}:
                    asked = full if what == "withhold" else mask
                    wanted = (
                        ([position], {})
                        if what == "withhold"
                        else ([], {position: (mask, sizes[index])})
                    )
                    taken = withheld.get(index, 0)
                    refused = asked & ~free if what == "part" else taken or free == 0
                    if refused:
                        with pytest.raises(AlreadyAcknowledged):
                            subscription.withhold(*wanted)  # type: ignore[arg-type]
                    elif asked:
                        subscription.withhold(*wanted)  # type: ignore[arg-type]
                        withheld[index] = taken | (asked & free)
                elif what in {"commit", "abort"}:
                    masks = {positions[i]: each for i, each in withheld.items()}
                    if what == "abort":
                        subscription.give_back(list(masks), {})
                    else:
                        holder = subscription.withhold([], {})
                        await settled(
                            engine, subscription,
                            Unit(acks=[(holder, list(masks))]),
                        )  # fmt: skip
                        for i, each in withheld.items():
                            acknowledged[i] = acknowledged.get(i, 0) | each
                    withheld.clear()
                elif what == "plain" and mask & free:
                    consumer.acknowledge_messages(position, mask & free)  # type: ignore[attr-defined]
                    acknowledged[index] = acknowledged.get(index, 0) | (mask & free)
                elif what == "release":
                    consumer.release_all(count=True)  # type: ignore[attr-defined]
                elif what in {"leave", "come"}:
                    consumer.detach()  # type: ignore[attr-defined]
                    consumer, sink = attach(subscription, permits=100, type=kind)
                elif what == "purge":
                    await quiet(engine)
                    await subscription.purge()
                await quiet(engine)
            consumer.detach()  # type: ignore[attr-defined]
            _, sink = attach(subscription, permits=100, type=kind)
            await quiet(engine)
            got = [0] * len(sizes)
            for run in sink.runs:
                for position in run.positions:
                    i = positions.index(position)
                    part = (run.masks or {}).get(position, (1 << sizes[i]) - 1)
                    assert not got[i] & part, "it came twice"
                    got[i] |= part
            for i, size in enumerate(sizes):
                gone = acknowledged.get(i, 0) | withheld.get(i, 0)
                assert got[i] == (1 << size) - 1 & ~gone
            backlog = [
                positions[i]
                for i, size in enumerate(sizes)
                if acknowledged.get(i, 0) != (1 << size) - 1
            ]
            assert list(subscription.unacknowledged(9)) == backlog
