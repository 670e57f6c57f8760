"""Which ranges of the log a read covers; pure.

The rule: an :class:`.Extent` says what the log held at one instant, a :class:`Span` which part of
it will be read. Spans are fixed once, on the driver. Entries never change and are dense in their
ledger, so a span that is read later and elsewhere gives the same rows, or is provably incomplete.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from arneb_core.api.entries.position import (
    LedgerId,
    Position,
    entry_of,
    ledger_of,
    position_at,
    render,
)
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent, LedgerExtent
from pyspark_arneb.offsets import EARLIEST, LATEST, Offsets, Times
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import ReadOptions

CLOCK_SLACK_MS: Final = 10 * 60 * 1000
"""How far an entry's publish time may lie outside its ledger's lifetime: entries wait for their
commit, and clocks are set back. Ledgers farther than this from the requested times are skipped; in
the others each entry's own time decides."""


RETENTION: Final = "retention removed it"


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive entries of one ledger, both ends included."""

    topic_id: TopicId
    topic: str
    first: Position
    last: Position
    messages: int
    """An estimate, for dividing the work; exact where no entry is a batch."""
    goes_on: bool = False
    """The same read covers the entries before this span, or omits them on purpose: damage that
    begins there is not reported for this span."""

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    @property
    def ledger(self) -> LedgerId:
        return ledger_of(self.first)

    def cut(self, entries: int) -> tuple["Span", "Span"]:
        """Split off the first ``entries`` entries; neither part may be empty."""
        assert 0 < entries < self.entries, "a cut lies inside the span"
        middle = Position(self.first + entries)
        messages = self.messages_before(entries)
        return (
            replace(self, last=Position(middle - 1), messages=messages),
            replace(self, first=middle, messages=self.messages - messages, goes_on=True),
        )

    def messages_before(self, entries: int) -> int:
        """Return the estimated number of messages in the first ``entries`` entries."""
        return self.messages * entries // self.entries

    def __repr__(self) -> str:
        return f"<Span {self.topic} {render(self.first)}..{render(self.last)}>"


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries that were requested and that the log no longer has; both ends included."""

    topic: str
    first: Position
    last: Position
    why: str = RETENTION
    topic_id: TopicId | None = None
    """The topic whose entries they were; None: no known log ever had them."""

    def __str__(self) -> str:
        # The end is exclusive, as in offsets, which also reads better for a whole ledger.
        end = render(Position(self.last + 1))
        return f"{self.topic} from {render(self.first)} to before {end} ({self.why})"


def select(extents: Iterable[Extent], options: ReadOptions) -> tuple[list[Span], list[Loss]]:
    """Return what to read, in order of topic and log, and what of it is already gone.

    Raises :class:`OptionError` when the offsets name a topic that is not read.
    """
    extents = list(extents)
    check_named("startingOffsets", options.start, extents)
    check_named("endingOffsets", options.end, extents)
    check_named("startingOffsetsByTimestamp", options.starting_times, extents)
    check_named("endingOffsetsByTimestamp", options.ending_times, extents)
    spans = [span for extent in extents for span in _spans(extent, options)]
    losses = [loss for extent in extents for loss in losses_of(extent, options)]
    return spans, losses


def check_named(option: str, bounds: Offsets | Times, extents: Iterable[Extent]) -> None:
    """Raise :class:`OptionError` when the offsets name a topic or a partition that is not read."""
    for unread in bounds.unread([extent.topic for extent in extents]):
        raise OptionError(option, f"{unread} is not among those that are read")


def begin_in(extent: Extent, start: Offsets) -> Position:
    """Return where a read from ``start`` begins in what the log still has."""
    if _is_replaced(extent, start):
        return extent.first
    return Position(min(max(start.of(extent.topic), extent.first), extent.end))


def _bounds(extent: Extent, options: ReadOptions) -> tuple[Position, Position]:
    """Return the first position to read and the first not to read; times override offsets, as in
    Kafka's source. A recreated topic is read from its beginning."""
    topic = extent.topic
    start = EARLIEST if options.starting_times.of(topic) is not None else options.start.of(topic)
    end = LATEST if options.ending_times.of(topic) is not None else options.end.of(topic)
    if _is_replaced(extent, options.start):
        start = EARLIEST
    if _is_replaced(extent, options.end):
        end = LATEST
    return start, end


def _is_replaced(extent: Extent, bounds: Offsets) -> bool:
    """Return whether the bound belongs to an earlier topic of the same name."""
    topic_id = bounds.topic_id_of(extent.topic)
    return topic_id is not None and topic_id != extent.topic_id


def _spans(extent: Extent, options: ReadOptions) -> Iterator[Span]:
    start, end = _bounds(extent, options)
    times = options.starting_times.of(extent.topic), options.ending_times.of(extent.topic)
    for ledger in extent.ledgers:
        first = Position(max(ledger.first, start))
        last = Position(min(ledger.last, end - 1))
        if first <= last and _may_hold(ledger, *times):
            entries = last - first + 1
            messages = max(entries, ledger.messages * entries // ledger.entries)
            yield Span(extent.topic_id, extent.topic, first, last, messages)


def _may_hold(ledger: LedgerExtent, from_ms: int | None, until_ms: int | None) -> bool:
    """Return whether the ledger may hold entries of the requested publish times."""
    closed = ledger.closed_ms > 0
    if from_ms is not None and closed and ledger.closed_ms + CLOCK_SLACK_MS < from_ms:
        return False
    return until_ms is None or ledger.created_ms - CLOCK_SLACK_MS < until_ms


def losses_of(extent: Extent, options: ReadOptions) -> Iterator[Loss]:
    """Yield what the offsets request and the log does not have."""
    for bounds in (options.start, options.end):
        if _is_replaced(extent, bounds):
            yield _replaced(extent, bounds)
            return
    start, end = _bounds(extent, options)
    for bound in (start, end):
        if EARLIEST < bound < LATEST and _is_beyond(bound, extent):
            at = render(extent.end)
            yield Loss(extent.topic, extent.end, Position(bound - 1), f"its log ends at {at}")
            return
        ended = _end_before(bound, extent)
        if ended is not None:
            why = f"its ledger ends at {render(ended)}"
            yield Loss(extent.topic, ended, Position(bound - 1), why)
            return
    if extent.is_at_floor(start):
        start = extent.floor
    if start == EARLIEST or start >= end:
        return
    first = extent.first
    if start < first:
        why = RETENTION
        is_near = ledger_of(start) + 1 == ledger_of(first) and first <= end
        if is_near and entry_of(start) > 0 and extent.trimmed_end is None:
            # An older version trimmed it, and did not write down how long it was.
            at = render(start)
            why += f"; if ledger {ledger_of(start)} ended at {at}, continue at {render(first)}"
        yield Loss(extent.topic, start, Position(min(first, end) - 1), why, extent.topic_id)


def _replaced(extent: Extent, bounds: Offsets) -> Loss:
    """Return the loss of everything before the bound, which belongs to a deleted topic."""
    bound = bounds.of(extent.topic)
    why = f"that topic, with the id {bounds.topic_id_of(extent.topic)}, is gone; "
    why += f"the one of its name has the id {extent.topic_id}"
    return Loss(extent.topic, EARLIEST, Position(max(bound, 1) - 1), why)


def _is_beyond(bound: Position, extent: Extent) -> bool:
    """Return whether the bound is beyond the log; a read that ended with a whole ledger may still
    continue at the beginning of the next."""
    return bound > extent.end and bound != position_at(ledger_of(extent.end) + 1, 0)


def _end_before(bound: Position, extent: Extent) -> Position | None:
    """Return the end of the bound's ledger if the log continued in another one before reaching the
    bound; for a ledger without entries, its beginning. Every ledger has its beginning."""
    number = ledger_of(bound)
    if extent.trimmed_end is not None and extent.trimmed_end < bound < extent.floor:
        ended = max(extent.trimmed_end, position_at(number, 0))
        return None if extent.is_at_floor(bound) else ended
    if entry_of(bound) == 0 or not extent.first <= bound <= extent.end:
        return None
    ends = (Position(each.last + 1) for each in extent.ledgers if ledger_of(each.first) == number)
    end = next(ends, extent.end if ledger_of(extent.end) == number else position_at(number, 0))
    return end if bound > end else None
