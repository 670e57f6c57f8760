"""Recording: a history tells what became of a subscription's entries, and nothing else."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import Origin
from arneb_core.api.entries.position import Position, position_at, render
from arneb_core.api.errors import CommitFailed, SubscriptionNotFound
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.history import HISTORY_SETTINGS, history_topic
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.group_commit.gathering import COMMIT_ENTRIES_MAX
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.schema import Table, cursor_prefix
from arneb_core.subscription.state import history as bounds
from arneb_core.testing.engine_kit import (
    RecordingSink,
    append,
    attach,
    make_entry,
    occupy,
    pass_time,
    publish,
    quiet,
)
from arneb_core.testing.faults import FaultyStore

TOPIC = history_topic("q", "s")


async def recorded(engine: Engine) -> Subscription:
    topic = await engine.create_topic("q")
    subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
    await engine.keep_history(topic, "s")
    return subscription


async def batches(engine: Engine) -> list[list[dict[str, Any]]]:
    """The history as it is on disk, batch by batch."""
    topic = engine.topic(TOPIC)
    runs = [] if topic.first is None else await topic.read(topic.first, 1 << 30)
    texts = [
        message.value
        for _, entries in runs
        for entry in entries
        for message in codecs()[Origin(entry[1])].decode(entry)
    ]
    return [[json.loads(line) for line in text.decode().splitlines()] for text in texts]


async def lines(engine: Engine) -> list[dict[str, Any]]:
    """What happened, in short."""
    await pass_time(engine, 1)
    return [line for batch in await batches(engine) for line in batch[1:]]


def event_of(line: dict[str, Any]) -> tuple[str, list[int]]:
    return line["event"], line["entries"]


async def test_deliveries_and_what_ends_them_are_recorded_in_order(data_dir: Path) -> None:
    async with open_engine(data_dir, now_ms=lambda: 5_000) as engine:
        subscription = await recorded(engine)
        positions = await append(engine, "q", [make_entry(b"x", publish_time_ms=4_000)] * 4)
        consumer, sink = attach(subscription, permits=10)
        await quiet(engine)
        consumer.acknowledge(sink.positions[:1])
        consumer.release(sink.positions[1:2], count=True)
        consumer.reject(sink.positions[2:3])
        await quiet(engine)
        consumer.detach()
        found = await lines(engine)
        assert list(map(event_of, found)) == [
            ("delivered", [0, 1, 2, 3]),
            ("acknowledged", [0]),
            ("returned", [1]),
            ("departed", [2]),
            ("delivered", [1]),
            ("returned", [1, 3]),
        ]
        first, _, requeued, departed, again, left = found
        assert first["age_ms"] == [1_000] * 4 and first["ledger"] == positions >> 32
        assert {line["at"] for line in found} == {5_000}
        assert requeued["counted"] is True and left["counted"] is False
        assert departed["reason"] == "rejected" and departed["dead_lettered"] is False
        assert {line["consumer"] for line in found if "consumer" in line} == {"c#1"}
        assert again["redelivered"] == [1] and again["redeliveries"] == [1]


async def test_each_batch_says_whose_it_is_and_none_is_left_out(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await recorded(engine)
        consumer, sink = attach(subscription, permits=10)
        for body in (b"a", b"b"):
            await publish(engine, "q", [body])
            await lines(engine)
            consumer.acknowledge(sink.positions[-1:])
            await lines(engine)
        heads = [batch[0] for batch in await batches(engine)]
        assert [head["batch"] for head in heads] == list(range(len(heads)))
        assert {(head["topic"], head["subscription"]) for head in heads} == {("q", "s")}
        assert len({head["run"] for head in heads}) == 1
        assert heads[-1]["mark_delete"] == render(sink.positions[-1])
        assert engine.topic(TOPIC).settings == HISTORY_SETTINGS


class NotingStore(FaultyStore):
    """Keeps what was committed, without what failed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.committed: list[Changes] = []

    def commit(self, changes: Changes) -> CommitReport:
        report = super().commit(changes)
        self.committed.append(changes)
        return report


async def test_an_acknowledgement_is_recorded_in_the_commit_that_makes_it_durable(
    data_dir: Path,
) -> None:
    """So that after a crash the history says no less than the cursor."""
    store = Store.open(data_dir)
    noting = NotingStore(store)
    async with open_engine(data_dir, store=store, committing=noting) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"])
        consumer, sink = attach(subscription, permits=1)
        await lines(engine)
        noting.committed.clear()
        consumer.acknowledge(sink.positions)
        await lines(engine)
        assert (await batches(engine))[-1][-1]["event"] == "acknowledged"
    store.close()
    cursor_commits = [
        changes
        for changes in noting.committed
        if any(row[0] is Table.CURSORS for row in changes.puts)
    ]
    assert cursor_commits and cursor_commits[0].blocks


@pytest.mark.parametrize("fails", [True, False])
async def test_it_is_recorded_with_the_cursor_after_a_failure_and_beside_a_unit_too(
    data_dir: Path, fails: bool
) -> None:
    """Cursors go first and alone behind a commit that failed, and along with whatever acknowledges
    elsewhere."""
    store = Store.open(data_dir)
    noting = NotingStore(store)
    async with open_engine(data_dir, store=store, committing=noting) as engine:
        subscription = await recorded(engine)
        others = await (await engine.create_topic("other")).subscribe("s")
        await publish(engine, "q", [b"a"])
        await publish(engine, "other", [b"b"])
        consumer, sink = attach(subscription, permits=1)
        other, other_sink = attach(others, permits=1)
        await lines(engine)
        await quiet(engine)  # reading let the clock run on, and what that began would fail instead
        consumer.acknowledge(sink.positions)
        noting.committed.clear()
        if fails:
            noting.fail_next()
            with pytest.raises(CommitFailed):
                await append(engine, "other", [make_entry(b"")])
        unit = Unit(acks=[(other, other_sink.positions)])
        await engine.committed(unit)
        await quiet(engine)
        first, cursors = next(
            (changes, keys)
            for changes in noting.committed
            if (keys := [key for table, key, _ in changes.puts if table is Table.CURSORS])
        )
        prefix = cursor_prefix(subscription.topic.id, subscription.id)
        assert any(key.startswith(prefix) for key in cursors)
        assert engine.topic(TOPIC).id in [topic_id for topic_id, _, _ in first.blocks]
        assert (await batches(engine))[-1][-1]["event"] == "acknowledged"
    store.close()


async def test_histories_whose_commits_fail_keep_no_client_waiting(data_dir: Path) -> None:
    store = Store.open(data_dir)
    faulty = FaultyStore(store)
    async with open_engine(data_dir, store=store, committing=faulty) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"])
        consumer, sink = attach(subscription, permits=1)
        await lines(engine)
        faulty.fail_next(50)  # more than these need
        consumer.acknowledge(sink.positions)
        for _ in range(3):
            with pytest.raises(CommitFailed):
                await append(engine, "q", [make_entry(b"")])
        faulty.heal()
        await lines(engine)
        assert (await batches(engine))[-1][-1]["event"] == "acknowledged"
    store.close()


async def test_a_history_goes_before_what_has_waited_for_longer(data_dir: Path) -> None:
    """Or the cursor of its acknowledgements would be on disk without it."""
    store = Store.open(data_dir)
    faulty = FaultyStore(store)
    async with open_engine(data_dir, store=store, committing=faulty) as engine:
        subscription = await recorded(engine)
        await engine.create_topic("other")
        await publish(engine, "q", [b"a"])
        consumer, sink = attach(subscription, permits=1)
        await lines(engine)
        faulty.hold()
        await occupy(engine, "other")
        for _ in range(2):
            entries = [make_entry(b"")] * (COMMIT_ENTRIES_MAX + 1)
            engine.append(engine.topic("other"), entries, lambda error, first: None)
        consumer.acknowledge(sink.positions)
        calls: list[list[str]] = []

        def durable(error: CommitFailed | None) -> None:
            last = engine.topic(TOPIC).last
            calls.append([] if last is None else [render(last)])

        subscription.receipt(durable)  # type: ignore[attr-defined]
        before = engine.topic(TOPIC).last
        faulty.release()
        await quiet(engine)
        assert before is not None and calls == [[render(Position(before + 1))]]
    store.close()


async def test_a_history_whose_commit_failed_is_written_by_the_next(data_dir: Path) -> None:
    store = Store.open(data_dir)
    faulty = FaultyStore(store)
    async with open_engine(data_dir, store=store, committing=faulty) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"] * 3)
        consumer, sink = attach(subscription, permits=3)
        await quiet(engine)
        faulty.fail_next()
        await pass_time(engine, 1)
        consumer.acknowledge(sink.positions)
        # The clock may have jumped to the write of a history while a commit was under way; then
        # it is the acknowledgement that fails first, and is told a second later.
        for _ in range(5):
            found = await lines(engine)
            if len(found) == 2:
                break
        assert list(map(event_of, found)) == [("delivered", [0, 1, 2]), ("acknowledged", [0, 1, 2])]
        numbers = [batch[0]["batch"] for batch in await batches(engine)]
        assert numbers == list(range(len(numbers)))
    store.close()


async def test_departures_without_an_acknowledgement_are_recorded(data_dir: Path) -> None:
    now = [1_000]
    async with open_engine(data_dir, now_ms=lambda: now[0]) as engine:
        subscription = await recorded(engine)
        subscription.limit(Limits(message_ttl_ms=100, delivery_limit=0), None)
        await publish(engine, "q", [b"a"])
        now[0] += 1_000_000
        consumer, sink = attach(subscription, permits=10)
        await append(engine, "q", [make_entry(b"b", publish_time_ms=now[0])])
        await quiet(engine)
        consumer.release(sink.positions, count=True)
        await append(engine, "q", [make_entry(b"c", publish_time_ms=now[0])])
        await quiet(engine)
        consumer.detach()
        await subscription.purge()
        await subscription.seek(position_at(1, 1))
        found = await lines(engine)
        reasons = [line.get("reason", line["event"]) for line in found]
        assert reasons == [
            "expired", "delivered", "returned", "delivery_limit", "delivered", "returned",
            "purged", "sought",
        ]  # fmt: skip
        assert found[-1]["entries"] == [1]


async def test_messages_of_batches_are_recorded_by_their_indexes(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await recorded(engine)
        await append(engine, "q", [make_entry(b"batch", 3)])
        consumer, sink = attach(subscription, permits=10, type=SubscriptionType.EXCLUSIVE)
        await quiet(engine)
        position = sink.positions[0]
        consumer.acknowledge_messages(position, 0b101)
        consumer.acknowledge_until(position)
        delivered, part, through = await lines(engine)
        assert delivered["messages"] == 3
        assert part["parts"] == {"0": [0, 2]}
        assert event_of(through) == ("acknowledged_through", [0])


async def test_deliveries_to_a_consumer_without_acknowledgements_are_recorded_as_acknowledged(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"])
        consumer = subscription.attach(
            ConsumerSpec("n", unlimited=True, acks=False, pulls=True), RecordingSink()
        )
        assert await consumer.pull() is not None
        delivered, settled = await lines(engine)
        assert event_of(delivered) == ("delivered", [0])
        assert event_of(settled) == ("acknowledged", [0]) and settled["auto"] is True


async def test_a_failed_unit_is_recorded_as_acknowledging_nothing(data_dir: Path) -> None:
    store = Store.open(data_dir)
    faulty = FaultyStore(store)
    async with open_engine(data_dir, store=store, committing=faulty) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"])
        consumer, sink = attach(subscription, permits=1)
        await quiet(engine)
        faulty.fail_next()
        with pytest.raises(CommitFailed):
            await engine.committed(Unit(acks=[(consumer, sink.positions)]))
        events = [line["event"] for line in await lines(engine)]
        assert events == ["delivered", "acknowledged", "restored"]
    store.close()


async def test_what_the_disk_does_not_keep_up_with_is_missed_and_counted(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "WAITING_BYTES_MAX", 200)
    async with open_engine(data_dir) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"] * 10)
        consumer, sink = attach(subscription, permits=10)
        await quiet(engine)
        for position in sink.positions:
            consumer.acknowledge([position])
        found = await lines(engine)
        (missed,) = [line for line in found if line["event"] == "missed"]
        assert missed["lines"] + len(found) - 1 == 11
        assert subscription.mark_delete == sink.positions[-1]


async def test_a_long_history_is_cut_into_entries_that_clients_take(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "BATCH_BYTES_MAX", 300)
    async with open_engine(data_dir) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"] * 20)
        consumer, sink = attach(subscription, permits=20)
        await quiet(engine)
        for position in sink.positions:
            consumer.acknowledge([position])
        found = await lines(engine)
        assert len(found) == 21
        sizes = [len(batch) for batch in await batches(engine)]
        assert len(sizes) > 5 and min(sizes) >= 2, "each entry has a head and at least one line"


async def test_it_goes_on_after_a_start_and_ends_with_its_topic(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await recorded(engine)
        await publish(engine, "q", [b"a"])
        attach(subscription, permits=1)
        await quiet(engine)
    async with open_engine(data_dir) as engine:
        assert [line["event"] for line in await lines(engine)] == ["delivered", "returned"]
        topic = engine.topic("q")
        await engine.keep_history(topic, "s")
        await engine.keep_history(topic, "s")
        attach(topic.subscriptions["s"], permits=1)
        events = [line["event"] for line in await lines(engine)]
        assert events == ["delivered", "returned", "delivered"]
        runs = {batch[0]["run"] for batch in await batches(engine)}
        assert len(runs) == 2
        await engine.delete_topic(TOPIC)
        await publish(engine, "q", [b"b"])
        consumer, sink = attach(topic.subscriptions["s"], permits=1)
        await pass_time(engine, 1)
        consumer.acknowledge(sink.positions)
        await pass_time(engine, 1)
        assert TOPIC not in engine.topics
        with pytest.raises(SubscriptionNotFound):
            await engine.keep_history(topic, "nobody")


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["publish", "attach", "ack", "release", "reject", "unit", "detach", "purge", "skip"]
        ),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(max_examples=30)
@given(steps=STEPS, has_target=st.booleans())
def test_what_a_history_tells_is_what_the_cursor_says(steps: list[Step], has_target: bool) -> None:
    """Reading a history from its beginning gives what is acknowledged and what is in flight."""

    async def play() -> None:
        with TemporaryDirectory() as path:
            async with open_engine(Path(path)) as engine:
                subscription = await recorded(engine)
                consumers: list[Any] = []
                for step in steps:
                    await take(engine, subscription, consumers, *step)
                await quiet(engine)
                acked, out = replay(await lines(engine))
                acks = subscription.machine.state.acks  # type: ignore[attr-defined]
                last = engine.topic("q").last
                known = (
                    [] if last is None else [position_at(1, n) for n in range((last & 0xFFFF) + 1)]
                )
                assert acked == {position for position in known if acks.is_acknowledged(position)}
                assert out == {each.name: each.positions for each in consumers if each.positions}

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


async def take(
    engine: Engine,
    subscription: Subscription,
    consumers: list[Any],
    what: str,
    who: int,
    count: int,
) -> None:
    consumer = consumers[who % len(consumers)] if consumers else None
    if what == "publish":
        await publish(engine, "q", [b"x"] * (count + 1))
    elif what == "attach" and len(consumers) < 4:
        consumers.append(attach(subscription, permits=5, name=f"c{len(consumers)}")[0])
    elif what == "purge":
        await subscription.purge()
    elif what == "skip" and (last := engine.topic("q").last) is not None:
        await subscription.skip_through(last)
    elif consumer is not None:
        mine = sorted(consumer.positions)[: count + 1]
        match what:
            case "ack":
                consumer.acknowledge([*mine, *mine[:1]])
            case "release":
                consumer.release(mine, count=bool(count % 2))
            case "reject":
                consumer.reject(mine)
            case "unit":
                await engine.committed(Unit(acks=[(consumer, mine)]))
            case "detach":
                consumer.detach()
    await quiet(engine)


def replay(calls: list[dict[str, Any]]) -> tuple[set[Position], dict[str, set[Position]]]:
    """What is acknowledged, and what each consumer has, by a history alone."""
    acked: set[Position] = set()
    out: dict[str, set[Position]] = {}
    for line in calls:
        positions = {position_at(line["ledger"], entry) for entry in line["entries"]}
        mine = out.setdefault(line.get("consumer", "").partition("#")[0], set())
        match line["event"]:
            case "delivered":
                mine |= positions
            case "acknowledged" | "departed":
                acked |= positions
                for each in out.values():
                    each -= positions
            case "returned":
                mine -= positions
            case "purged" | "skipped":
                through = max(positions)
                every = {position_at(1, entry) for entry in range((through & 0xFFFF) + 1)}
                if line["event"] == "purged":
                    every -= set().union(*out.values())
                acked |= every
                for each in out.values():
                    each -= every
    return acked, {name: positions for name, positions in out.items() if positions}
