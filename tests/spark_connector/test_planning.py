"""Ranges and partitions: disjoint, in order, covering exactly what was asked for."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at, render
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent, LedgerExtent
from pyspark_arneb.log.topics import TopicSelection, full_name
from pyspark_arneb.offsets import EARLIEST, LATEST, Offsets, Times
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.partitions import MESSAGES_WORTH_A_TASK, Partition, divide
from pyspark_arneb.plan.ranges import CLOCK_SLACK_MS, Loss, Span, select

HOUR_MS = 3_600_000


@st.composite
def ledger_extents(draw: st.DrawFn) -> LedgerExtent:
    ledger = draw(st.integers(1, 60))
    first = draw(st.integers(0, 5))
    entries = draw(st.integers(1, 30))
    batch = draw(st.integers(1, 4))
    created = draw(st.integers(0, 100)) * HOUR_MS
    closed = draw(st.sampled_from([0, created + 1, created + HOUR_MS]))
    start = position_at(ledger, first)
    return LedgerExtent(start, Position(start + entries - 1), entries * batch, created, closed)


@st.composite
def extents(draw: st.DrawFn, topics: int = 3) -> list[Extent]:
    found = []
    for number in range(1, draw(st.integers(0, topics)) + 1):
        ledgers = draw(
            st.lists(ledger_extents(), max_size=5, unique_by=lambda extent: extent.first >> 32)
        )
        ordered = tuple(sorted(ledgers, key=lambda extent: extent.first))
        end = Position(ordered[-1].last + 1) if ordered else Position(0)
        found.append(Extent(TopicId(number), full_name(f"t{number}"), ordered, end=end))
    return found


def spans_of(logs: Sequence[Extent]) -> list[Span]:
    spans, losses = select(logs, options())
    assert not losses
    return spans


def options(**given_options: object) -> ReadOptions:
    return ReadOptions("/d", TopicSelection(pattern=".*"), **given_options)  # type: ignore[arg-type]


def entries_of(spans: Sequence[Span]) -> list[tuple[str, int]]:
    return [(span.topic, at) for span in spans for at in range(span.first, span.last + 1)]


def flat(parts: Sequence[Partition]) -> list[Span]:
    return [span for part in parts for span in part]


@given(extents(), st.integers(1, 12), st.none() | st.integers(1, 12), st.none() | st.integers(1, 9))
def test_partitions_cover_the_spans_exactly_once_and_in_order(
    logs: list[Extent], parallelism: int, partitions_min: int | None, records_max: int | None
) -> None:
    spans = spans_of(logs)
    parts = divide(
        spans, parallelism=parallelism, partitions_min=partitions_min, records_max=records_max
    )
    assert entries_of(flat(parts)) == entries_of(spans)
    assert all(parts), "no partition is empty"
    assert sum(span.messages for span in flat(parts)) == sum(span.messages for span in spans)
    assert all(span.messages >= span.entries for span in flat(parts))


@given(extents(), st.integers(1, 12))
def test_the_least_number_of_partitions_is_kept(logs: list[Extent], partitions_min: int) -> None:
    spans = spans_of(logs)
    parts = divide(spans, parallelism=2, partitions_min=partitions_min)
    assert len(parts) == min(partitions_min, sum(span.entries for span in spans))


@given(extents(), st.integers(1, 40))
def test_no_partition_has_more_records_than_allowed_unless_a_single_entry(
    logs: list[Extent], records_max: int
) -> None:
    for part in divide(spans_of(logs), parallelism=2, records_max=records_max):
        # An entry is never divided, and where entries are batches their number is an average.
        slack = len(part) if any(span.messages > span.entries for span in part) else 0
        records = sum(span.messages for span in part)
        assert records <= records_max + slack or sum(span.entries for span in part) == 1


@given(st.integers(1, 8), st.integers(1, 500))
def test_partitions_of_plain_messages_differ_by_one_at_most(parts_min: int, entries: int) -> None:
    last = Position(position_at(1, 0) + entries - 1)
    span = Span(TopicId(1), "t", position_at(1, 0), last, entries)
    sizes = [p[0].entries for p in divide([span], parallelism=1, partitions_min=parts_min)]
    assert max(sizes) - min(sizes) <= 1


def test_a_small_log_is_not_torn_to_pieces_without_being_asked() -> None:
    last = Position(position_at(1, 0) + MESSAGES_WORTH_A_TASK - 1)
    span = Span(TopicId(1), "t", position_at(1, 0), last, MESSAGES_WORTH_A_TASK)
    assert len(divide([span], parallelism=64)) == 1


def test_nothing_to_read_is_no_partition() -> None:
    assert divide([], parallelism=4, partitions_min=3) == []


PLACES = st.sampled_from([EARLIEST, LATEST]) | st.builds(
    position_at, st.integers(1, 62), st.integers(0, 40)
)


@given(extents(), PLACES, PLACES)
def test_spans_are_the_entries_between_the_offsets(
    logs: list[Extent], start: Position, end: Position
) -> None:
    spans, _ = select(logs, options(start=Offsets(start), end=Offsets(end)))
    everything = entries_of(spans_of(logs))
    assert entries_of(spans) == [(topic, at) for topic, at in everything if start <= at < end]


@given(extents(), PLACES, PLACES)
def test_the_end_of_one_read_is_the_start_of_the_next(
    logs: list[Extent], middle: Position, end: Position
) -> None:
    first, _ = select(logs, options(end=Offsets(middle)))
    second, _ = select(logs, options(start=Offsets(middle), end=Offsets(end)))
    both, _ = select(logs, options(end=Offsets(max(middle, end))))
    assert sorted(entries_of(first) + entries_of(second)) == sorted(entries_of(both))


@given(extents(topics=1), PLACES)
def test_a_start_before_the_log_is_a_loss_up_to_its_first_entry(
    logs: list[Extent], start: Position
) -> None:
    _, losses = select(logs, options(start=Offsets(start)))
    ledgers = logs[0].ledgers if logs else ()
    if start == EARLIEST or not logs:
        assert losses == []
    elif not ledgers or start >= ledgers[0].first:
        there = [(ledger.first, ledger.last) for ledger in ledgers]
        assert not any(first <= loss.first <= last for loss in losses for first, last in there), (
            "a range that was read is reported as lost"
        )
    else:
        (loss,) = losses
        assert (loss.first, loss.last) == (start, ledgers[0].first - 1)


def test_what_was_lost_beyond_the_end_does_not_matter() -> None:
    ledger = LedgerExtent(position_at(9, 0), position_at(9, 5), 6)
    log = Extent(TopicId(1), full_name("t"), (ledger,), end=position_at(9, 6))
    bounds = options(start=Offsets(position_at(2, 0)), end=Offsets(position_at(3, 4)))
    spans, losses = select([log], bounds)
    assert spans == []
    assert losses == [Loss(log.topic, position_at(2, 0), position_at(3, 3), topic_id=log.topic_id)]
    text = "persistent://public/default/t from 2:0 to before 3:4 (retention removed it)"
    assert str(losses[0]) == text


WHOLE = Extent(
    TopicId(7),
    full_name("t"),
    (LedgerExtent(position_at(3, 0), position_at(3, 5), 6),),
    floor=position_at(3, 0),
    end=position_at(3, 6),
)


@pytest.mark.parametrize("end", [position_at(3, 6), position_at(4, 0)])
def test_the_end_itself_and_the_next_ledgers_beginning_are_no_loss(end: Position) -> None:
    """A read that ended with a whole ledger may go on at either."""
    for bounds in (options(start=Offsets(end)), options(end=Offsets(end))):
        assert select([WHOLE], bounds)[1] == []


@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.parametrize("place", [position_at(3, 7), position_at(4, 1), position_at(5, 0)])
def test_a_bound_beyond_the_end_is_a_loss(bound: str, place: Position) -> None:
    """The topic may have been deleted and recreated, and counts from 1 again."""
    spans, losses = select([WHOLE], options(**{bound: Offsets(place)}))
    assert [str(each) for each in losses] == [
        f"persistent://public/default/t from 3:6 to before {render(place)} (its log ends at 3:6)"
    ]
    assert len(spans) == (bound == "end")


GAPS = Extent(
    TopicId(7),
    full_name("t"),
    (
        LedgerExtent(position_at(3, 0), position_at(3, 5), 6),
        LedgerExtent(position_at(6, 0), position_at(6, 5), 6),
    ),
    floor=position_at(3, 0),
    end=position_at(6, 6),
)
"""Ledgers 4 and 5 ended without an entry."""


@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.parametrize(
    ("place", "end"),
    [
        (position_at(3, 7), position_at(3, 6)),
        (position_at(4, 1), position_at(4, 0)),
        (position_at(5, 9), position_at(5, 0)),
    ],
)
def test_a_bound_after_the_end_of_its_ledger_is_a_loss(
    bound: str, place: Position, end: Position
) -> None:
    """The log may have been restored from an older copy, and have grown on in other ledgers."""
    (loss,) = select([GAPS], options(**{bound: Offsets(place)}))[1]
    why = f"its ledger ends at {render(end)}"
    assert loss == Loss(GAPS.topic, end, Position(place - 1), why)


@pytest.mark.parametrize(
    "place", [position_at(3, 6), position_at(4, 0), position_at(5, 0), position_at(6, 0)]
)
def test_a_bound_between_two_ledgers_is_no_loss(place: Position) -> None:
    for bounds in (options(start=Offsets(place)), options(end=Offsets(place))):
        assert select([GAPS], bounds)[1] == []


def test_the_possible_end_of_a_ledger_that_is_gone_is_reported() -> None:
    """Its length is gone with it, so whoever read it to its end must be told where to go on."""
    log = replace(WHOLE, floor=position_at(3, 0))
    (loss,) = select([log], options(start=Offsets(position_at(2, 8))))[1]
    assert loss.first == position_at(2, 8)
    assert loss.why == "retention removed it; if ledger 2 ended at 2:8, continue at 3:0"
    (loss,) = select([log], options(start=Offsets(position_at(1, 8))))[1]
    assert loss.why == "retention removed it"


def test_a_bound_in_a_log_that_has_nothing_yet_is_a_loss() -> None:
    """Whoever had the bound had it of a topic that was there before."""
    log = Extent(TopicId(8), full_name("t"), ())
    (loss,) = select([log], options(start=Offsets(position_at(1, 4))))[1]
    assert loss.why == "its log ends at 0:0"


@pytest.mark.parametrize("bound", ["start", "end"])
def test_a_bound_with_the_id_of_another_topic_is_a_loss_and_then_all_is_read(bound: str) -> None:
    offsets = Offsets(LATEST, {WHOLE.topic: position_at(3, 2)}, topic_ids={WHOLE.topic: 6})
    spans, losses = select([WHOLE], options(**{bound: offsets}))
    (loss,) = losses
    assert loss.why == "that topic, with the id 6, is gone; the one of its name has the id 7"
    assert [(span.first, span.last) for span in spans] == [(position_at(3, 0), position_at(3, 5))]
    same = Offsets(EARLIEST, {WHOLE.topic: position_at(3, 2)}, topic_ids={WHOLE.topic: 7})
    assert select([WHOLE], options(start=same))[1] == []


@given(extents(), st.integers(0, 120), st.integers(0, 120))
def test_no_ledger_that_may_hold_the_asked_times_is_left_out(
    logs: list[Extent], from_hour: int, until_hour: int
) -> None:
    times = options(
        starting_times=Times(from_hour * HOUR_MS), ending_times=Times(until_hour * HOUR_MS)
    )
    spans, _ = select(logs, times)
    chosen = {(span.topic, span.ledger) for span in spans}
    for log in logs:
        for ledger in log.ledgers:
            ends = ledger.closed_ms or 1 << 62
            overlaps = (
                ends + CLOCK_SLACK_MS >= from_hour * HOUR_MS
                and ledger.created_ms - CLOCK_SLACK_MS < until_hour * HOUR_MS
            )
            assert ((log.topic, ledger.first >> 32) in chosen) == overlaps


def test_a_start_before_a_log_that_was_drained_is_a_loss() -> None:
    """All of it was acknowledged and went; what was asked for is gone all the same."""
    log = Extent(TopicId(1), full_name("t"), (), floor=position_at(5, 0), end=position_at(5, 0))
    spans, losses = select([log], options(start=Offsets(position_at(4, 2))))
    assert spans == []
    why = "retention removed it; if ledger 4 ended at 4:2, continue at 5:0"
    lost = Loss(log.topic, position_at(4, 2), Position(position_at(5, 0) - 1), why, log.topic_id)
    assert losses == [lost]
    assert select([log], options(start=Offsets(position_at(5, 0)))) == ([], [])


TRIMMED = replace(GAPS, floor=position_at(3, 0), trimmed_end=position_at(1, 8))
"""Ledger 1 was removed with 8 entries, and ledger 2 without any."""


@pytest.mark.parametrize("place", [position_at(1, 8), position_at(2, 0), position_at(3, 0)])
def test_a_start_at_the_end_of_what_was_trimmed_is_no_loss(place: Position) -> None:
    spans, losses = select([TRIMMED], options(start=Offsets(place)))
    assert losses == []
    assert [span.first for span in spans] == [position_at(3, 0), position_at(6, 0)]
    assert select([TRIMMED], options(start=Offsets(place), end=Offsets(place))) == ([], [])
    drained = replace(TRIMMED, ledgers=(), end=position_at(3, 0))
    assert select([drained], options(start=Offsets(place))) == ([], [])


def test_what_was_trimmed_before_its_end_is_a_loss() -> None:
    (loss,) = select([TRIMMED], options(start=Offsets(position_at(1, 7))))[1]
    assert (loss.first, loss.last) == (position_at(1, 7), position_at(3, 0) - 1)
    assert loss.why == "retention removed it"


@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.parametrize(
    ("place", "end"),
    [(position_at(1, 9), position_at(1, 8)), (position_at(2, 1), position_at(2, 0))],
)
def test_a_bound_after_the_end_of_a_trimmed_ledger_is_a_loss(
    bound: str, place: Position, end: Position
) -> None:
    (loss,) = select([TRIMMED], options(**{bound: Offsets(place)}))[1]
    assert loss == Loss(
        TRIMMED.topic, end, Position(place - 1), f"its ledger ends at {render(end)}"
    )


def test_entries_that_are_damaged_after_what_was_trimmed_are_a_loss() -> None:
    """The first ledger that is left has lost its first entries."""
    log = replace(TRIMMED, ledgers=(LedgerExtent(position_at(3, 2), position_at(3, 5), 4),))
    (loss,) = select([log], options(start=Offsets(position_at(1, 8))))[1]
    assert (loss.first, loss.last) == (position_at(3, 0), position_at(3, 1))


def test_times_win_over_offsets() -> None:
    """Kafka's source has the same precedence."""
    log = Extent(
        TopicId(1), full_name("t"), (LedgerExtent(position_at(1, 0), position_at(1, 5), 6),)
    )
    late = Offsets(position_at(1, 3))
    spans, _ = select(
        [log], options(start=late, end=late, starting_times=Times(0), ending_times=Times(1))
    )
    assert [span.entries for span in spans] == [6]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_of_a_topic_that_is_not_read_are_refused(option: str) -> None:
    offsets = Offsets(LATEST, {full_name("other"): position_at(1, 0)})
    name = {"startingOffsets": "start", "endingOffsets": "end"}[option]
    with pytest.raises(OptionError, match=f'"{option}".*other is not among'):
        select([Extent(TopicId(1), full_name("t"), ())], options(**{name: offsets}))


@given(st.integers(2, 50), st.data())
def test_cutting_a_span_keeps_every_entry_and_message(entries: int, data: st.DataObject) -> None:
    messages = data.draw(st.integers(entries, 5 * entries))
    span = Span(
        TopicId(1), "t", position_at(3, 4), Position(position_at(3, 4) + entries - 1), messages
    )
    head, tail = span.cut(data.draw(st.integers(1, entries - 1)))
    assert (head.first, tail.last, head.last + 1) == (span.first, span.last, tail.first)
    assert head.messages + tail.messages == messages
