"""A query over a broker that trims eagerly, killed at any step: nothing is lost or doubled."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.spark_connector.stream.fake_broker import FakeBroker
from tests.spark_connector.stream.micro_batches import STEPS, Checkpoint, Killed, Run

from arneb_core.api.entries.position import position_at
from pyspark_arneb.errors import DataLossError
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.topics import TopicSelection, full_name
from pyspark_arneb.offsets import EARLIEST, LATEST, Offsets
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.stream.admission import Limits
from pyspark_arneb.stream.continuity import continue_from
from pyspark_arneb.stream.cursor import LEASE_S_UNKNOWN, QueryCursor
from pyspark_arneb.stream.offset import TopicOffset
from pyspark_arneb.stream.options import LEASE_S, StreamOptions
from pyspark_arneb.stream.planner import StreamPlanner

NAMES = count()


def options(*, fail: bool = True, start: int = EARLIEST, **more: object) -> StreamOptions:
    read = ReadOptions(
        Directory("/nowhere"),
        TopicSelection(pattern=".*"),
        start=Offsets(EARLIEST if start == EARLIEST else LATEST),
        fail_on_data_loss=fail,
    )
    return StreamOptions(read, **more)  # type: ignore[arg-type]


def planner(
    broker: FakeBroker, given: StreamOptions | None = None, *, cursor: bool = True
) -> StreamPlanner:
    given = given or options()
    return StreamPlanner(
        given,
        broker,
        QueryCursor(broker, given.lease_s) if cursor else None,
        now_s=lambda: broker.now_s,
        new_name=lambda: str(next(NAMES)),
    )


def run(broker: FakeBroker, checkpoint: Checkpoint, **more: object) -> Run:
    return Run(checkpoint, planner(broker, options(**more)), broker)  # type: ignore[arg-type]


class Queries(RuleBasedStateMachine):
    """A query with a cursor, killed and started again, beside publishers."""

    @initialize(limit=st.none() | st.integers(1, 9), start=st.sampled_from([EARLIEST, LATEST]))
    def begin(self, limit: int | None, start: int) -> None:
        self.broker = FakeBroker()
        self.broker.create("t0")
        self.limits = Limits(limit)
        self.start = start
        self.checkpoint = Checkpoint()
        self.numbers = count()
        self.expected: list[bytes] = []
        self.topics = 1
        self.restart()
        # From here on nothing may be missed.
        self.run.planner.initial()

    def restart(self) -> None:
        given = options(start=self.start)
        self.run = Run(self.checkpoint, planner(self.broker, given), self.broker, self.limits)

    @rule(data=st.data(), amount=st.integers(1, 7), messages=st.integers(1, 3))
    def publish(self, data: st.DataObject, amount: int, messages: int) -> None:
        topic = f"t{data.draw(st.integers(0, self.topics - 1))}"
        found = [b"%d" % next(self.numbers) for _ in range(amount)]
        self.broker.append(topic, found, messages)
        self.expected += found

    @rule(data=st.data())
    def roll(self, data: st.DataObject) -> None:
        self.broker.roll(f"t{data.draw(st.integers(0, self.topics - 1))}")

    @rule()
    def add_a_topic(self) -> None:
        """Nothing keeps what is published to a topic before the query has seen it."""
        if self.topics < 4:
            self.broker.create(f"t{self.topics}")
            self.topics += 1
            self.trigger()

    @rule(seconds=st.floats(0, LEASE_S_UNKNOWN / 8))
    def wait(self, seconds: float) -> None:
        self.broker.wait(seconds)
        self.trigger()

    @rule()
    def trigger(self) -> None:
        self.run.trigger()

    @rule(step=st.none() | st.sampled_from(STEPS))
    def killed(self, step: str | None) -> None:
        if self.start == LATEST and not self.checkpoint.offsets:
            return  # what "latest" is, is not settled before it is written down
        with pytest.raises(Killed):
            if step is not None:
                self.run.trigger(step)
            raise Killed("between two batches")
        self.restart()

    @invariant()
    def nothing_is_doubled_or_invented(self) -> None:
        rows = self.checkpoint.rows
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(self.expected)

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        while self.run.trigger():
            pass
        assert sorted(self.checkpoint.rows, key=int) == self.expected
        if self.checkpoint.offsets:
            name = self.run.planner.latest(self.run._offset(-1), self.limits).cursor
            assert name is not None
            assert self.broker.backlog(name) == 0
            assert {of for of, _ in self.broker.cursors} >= {name}


TestQueries = Queries.TestCase
TestQueries.settings = settings(stateful_step_count=40)


def test_a_backlog_is_zero_when_the_query_has_caught_up_and_waits() -> None:
    """Not a batch later, and without Spark's ``commit``, which comes with the next batch."""
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1", b"2"])
    query = run(broker, Checkpoint())
    assert query.trigger()
    assert query.planner.report is not None
    assert query.planner.report.messages == 2
    assert not query.trigger()
    assert query.planner.report.messages == 0
    assert {cursor.next for cursor in broker.cursors.values()} == {broker.logs[full_name("a")].end}


def test_a_cursor_without_a_checkpoint_ends_after_a_day() -> None:
    broker = FakeBroker()
    broker.create("a")
    run(broker, Checkpoint()).planner.initial()
    broker.wait(LEASE_S_UNKNOWN - 1)
    assert broker.cursors
    broker.wait(2)
    assert not broker.cursors


def test_the_cursor_has_its_whole_lease_before_the_first_batch_runs() -> None:
    """A first batch that catches up may run for long."""
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1"])
    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        run(broker, checkpoint).trigger("written")
    broker.roll("a")
    broker.wait(LEASE_S - 1)
    run(broker, checkpoint).trigger()
    assert checkpoint.rows == [b"1"]


def test_a_restart_before_the_first_batch_was_done_runs_the_batch_that_was_planned() -> None:
    """With ``latest`` the initial offset that Spark asks for again is behind the batch's end."""
    broker = FakeBroker()
    broker.create("a")
    checkpoint = Checkpoint()
    query = run(broker, checkpoint, start=LATEST)
    query.planner.initial()
    broker.append("a", [b"1"])
    with pytest.raises(Killed):
        query.trigger("written")
    broker.append("a", [b"2"])
    again = run(broker, checkpoint, start=LATEST)
    assert again.trigger()
    assert again.trigger()
    assert checkpoint.rows == [b"1", b"2"]
    assert len({name for name, _ in broker.cursors}) == 1, "the second run's cursor is given up"


def test_a_restart_after_the_lease_is_data_loss_that_is_named() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1"])
    checkpoint = Checkpoint()
    query = run(broker, checkpoint, lease_s=60)
    query.trigger()
    broker.append("a", [b"2", b"3"])
    broker.roll("a")
    broker.append("a", [b"4"])
    broker.wait(61)
    with pytest.raises(
        DataLossError, match=r"about 2 messages of topic a from 1:1 to before 2:0.*failOnDataLoss"
    ):
        run(broker, checkpoint, lease_s=60).trigger()
    assert not broker.cursors, "what fails changes nothing"
    lenient = run(broker, checkpoint, lease_s=60, fail=False)
    while lenient.trigger():
        pass
    assert checkpoint.rows == [b"1", b"4"]


def test_a_restart_after_the_lease_loses_nothing_that_is_still_there() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1"])
    checkpoint = Checkpoint()
    run(broker, checkpoint, lease_s=60).trigger()
    broker.append("a", [b"2"])
    broker.wait(61)
    assert not broker.cursors
    again = run(broker, checkpoint, lease_s=60)
    again.trigger()
    assert checkpoint.rows == [b"1", b"2"]
    again.trigger()
    assert {cursor.next for cursor in broker.cursors.values()} == {broker.logs[full_name("a")].end}


def test_a_read_end_that_was_trimmed_is_no_loss() -> None:
    """Everything of ledger 1 had been read; that it went is what the cursor is for."""
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1", b"2"])
    checkpoint = Checkpoint()
    query = run(broker, checkpoint)
    query.trigger()
    query.trigger()
    broker.roll("a")
    broker.append("a", [b"3"])
    assert broker.logs[full_name("a")].ledgers[0].number == 2
    assert run(broker, checkpoint).trigger()
    assert checkpoint.rows == [b"1", b"2", b"3"]


def test_a_query_whose_count_is_wrong_continues_after_what_was_trimmed() -> None:
    """In a directory the count of an open ledger with a damaged block is an estimate."""
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1", b"2"])
    broker.roll("a")
    broker.append("a", [b"3"])
    (extent,) = broker.extents([full_name("a")])
    assert extent.floor == position_at(2, 0)
    offset = TopicOffset(extent.topic_id, position_at(1, 2), messages=7)
    assert continue_from(offset, extent).loss == (
        "topic a from 1:2 to before 2:0, removed by retention"
    )
    known = replace(extent, trimmed_end=position_at(1, 2))
    assert continue_from(offset, known).loss is None
    early = replace(offset, next=position_at(1, 1))
    assert continue_from(early, known).loss is not None
    damaged = replace(known, ledgers=(replace(known.ledgers[0], first=position_at(2, 1)),))
    assert continue_from(offset, damaged).loss is not None


def test_a_recreated_topic_is_data_loss_and_then_read_from_its_beginning() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1", b"2"])
    checkpoint = Checkpoint()
    run(broker, checkpoint).trigger()
    broker.delete("a")
    broker.create("a")
    broker.append("a", [b"3", b"4", b"5"])
    with pytest.raises(DataLossError, match=r"topic a was deleted and recreated \(id 1 is now 2\)"):
        run(broker, checkpoint).trigger()
    again = run(broker, checkpoint, fail=False)
    assert again.trigger()
    assert not again.trigger(), "the loss is told once"
    assert checkpoint.rows == [b"1", b"2", b"3", b"4", b"5"]


def test_a_topic_that_is_gone_is_data_loss_and_then_forgotten() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.create("b")
    broker.append("a", [b"1"])
    checkpoint = Checkpoint()
    run(broker, checkpoint).trigger()
    broker.delete("a")
    with pytest.raises(DataLossError, match=r"topic a \(id 1\) is gone, with everything after 1:1"):
        run(broker, checkpoint).trigger()
    again = run(broker, checkpoint, fail=False)
    again.trigger()
    assert not again.trigger()


def test_a_topic_that_is_not_chosen_any_more_is_said_to_be_there() -> None:
    """A restart with other options: the query leaves behind what it had not read of the topic."""
    broker = FakeBroker()
    for name in ("a", "b"):
        broker.create(name)
        broker.append(name, [b"1"])
    checkpoint = Checkpoint()
    run(broker, checkpoint).trigger()
    fewer = StreamOptions(ReadOptions(Directory("/nowhere"), TopicSelection((full_name("a"),))))
    with pytest.raises(
        DataLossError, match=r"topic b \(id 2\) is not read any more, with everything"
    ):
        Run(checkpoint, planner(broker, fewer), broker).trigger()


def test_a_log_that_was_restored_from_an_older_copy_is_data_loss() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1", b"2"])
    checkpoint = Checkpoint()
    run(broker, checkpoint).trigger()
    del broker.logs[full_name("a")].ledgers[-1].entries[1:]
    with pytest.raises(DataLossError, match="topic a ends at 1:1, before 1:2 which was reached"):
        run(broker, checkpoint).trigger()
    broker.append("a", [b"3"])


def test_available_now_ends_where_the_log_ended_when_it_began() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"%d" % number for number in range(5)])
    checkpoint = Checkpoint()
    query = Run(checkpoint, planner(broker), broker, Limits(2))
    query.planner.fix_end()
    broker.append("a", [b"late"])
    broker.create("new")
    broker.append("new", [b"later"])
    batches = 0
    while query.trigger():
        batches += 1
    assert batches == 3
    assert checkpoint.rows == [b"0", b"1", b"2", b"3", b"4"]


def test_a_user_s_subscription_goes_on_where_it_stands() -> None:
    """Unless it is said where to begin: a new checkpoint does not read everything again."""
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1", b"2"])
    first = Checkpoint()
    query = run(broker, first, subscription="mine")
    query.trigger()
    query.trigger()
    broker.append("a", [b"3"])
    second = Checkpoint()
    run(broker, second, subscription="mine", start=LATEST).trigger()
    assert second.rows == [b"3"]
    third = Checkpoint()
    run(broker, third, subscription="other", start_is_given=True).trigger()
    assert third.rows == [b"1", b"2", b"3"]
    assert {name for name, _ in broker.cursors} == {"mine", "other"}


def test_a_small_batch_waits_for_more_but_not_for_ever() -> None:
    broker = FakeBroker()
    broker.create("a")
    checkpoint = Checkpoint()
    query = run(broker, checkpoint, messages_min=3, trigger_delay_s=60)
    broker.append("a", [b"1", b"2"])
    assert not query.trigger()
    broker.append("a", [b"3"])
    assert query.trigger()
    broker.append("a", [b"4"])
    assert not query.trigger()
    broker.wait(61)
    assert query.trigger()
    assert checkpoint.rows == [b"1", b"2", b"3", b"4"]


def test_without_a_cursor_the_log_is_read_all_the_same_and_nothing_is_asked_of_a_broker() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.append("a", [b"1"])
    checkpoint = Checkpoint()
    query = Run(checkpoint, planner(broker, cursor=False), broker)
    query.trigger()
    assert checkpoint.rows == [b"1"]
    assert set(broker.calls) == {"extents"}
    assert '"cursor"' not in checkpoint.offsets[0]


def test_a_micro_batch_asks_the_broker_twice() -> None:
    """Once for the extents and once for the cursor: what a trigger costs."""
    broker = FakeBroker()
    broker.create("a")
    query = run(broker, Checkpoint())
    for number in range(3):
        broker.append("a", [b"%d" % number])
        query.trigger()
    broker.append("a", [b"more"])
    broker.calls.clear()
    query.trigger()
    assert broker.calls == ["extents", "acknowledge"]


def test_a_topic_that_was_named_must_be_there_when_the_query_begins() -> None:
    broker = FakeBroker()
    broker.create("a")
    named = ReadOptions(Directory("/nowhere"), TopicSelection(names=(full_name("b"),)))
    with pytest.raises(OptionError, match='option "topic": no topic'):
        planner(broker, StreamOptions(named)).initial()
