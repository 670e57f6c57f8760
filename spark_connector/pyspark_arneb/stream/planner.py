"""The planner of a streaming query: looks at the log and decides where each micro-batch ends.

The rule: Spark asks for one offset after another, and each request starts where Spark has finished:
everything before is in its commit log, and is never asked for again. So
:meth:`StreamPlanner.latest` acknowledges its start. Waiting for Spark's ``commit`` would
acknowledge a batch late, and after ``availableNow`` only in the next run.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from arneb_core.api.entries.position import Position, render
from arneb_core.store.reading.extents import Extent
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.log.topics import short_name
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.plan.at_time import position_at_time, published_ms
from pyspark_arneb.plan.planning import selected_topics
from pyspark_arneb.plan.ranges import Span, begin_in, check_named, losses_of
from pyspark_arneb.stream.admission import Limits, admit
from pyspark_arneb.stream.backlog import Backlog, backlog_of, messages_until, total
from pyspark_arneb.stream.continuity import (
    Continuation,
    acknowledged_by,
    continuations,
    continue_from,
    loss_of_topic,
)
from pyspark_arneb.stream.cursor import CursorState, QueryCursor
from pyspark_arneb.stream.offset import StreamOffset, TopicOffset, begins
from pyspark_arneb.stream.options import StreamOptions

log = logging.getLogger(__name__)

MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class Report:
    """What there was to read at the last look at the log."""

    ends: Mapping[str, Position]
    messages: int
    bytes_total: int
    age_s: int
    """The age of the oldest message that the query has not finished."""


class StreamPlanner:
    """Plans the micro-batches of one run of a query, on the driver.

    ``now_s`` is the wall clock, and ``new_name`` makes the name of a cursor. ``cursor`` is None
    where the log offers none: then only retention keeps what the query has not read yet.
    """

    def __init__(
        self,
        options: StreamOptions,
        source: BlockSource,
        cursor: QueryCursor | None,
        *,
        now_s: Callable[[], float],
        new_name: Callable[[], str],
    ) -> None:
        self._options = options
        self._source = source
        self._cursor = cursor
        self._now_s = now_s
        self._new_name = new_name
        self._made_name: str | None = None
        self._initial: StreamOffset | None = None
        self._present: Collection[str] = ()
        """All topics that existed at the last look at the log."""
        self._extents: dict[str, Extent] = {}
        """What the topics that are read held then."""
        self._targets: dict[str, tuple[int, Position]] | None = None
        self._acknowledged: Mapping[str, tuple[int, Position]] = {}
        self._batch_s = now_s()
        """When the last batch was planned, or the run began."""
        self.report: Report | None = None

    def initial(self) -> StreamOffset:
        """Return where a new query begins; the same for every call of a run.

        Raises :class:`.OptionError` when a topic named in the options does not exist.
        """
        if self._initial is None:
            extents = self._look(required=True)
            check_named("startingOffsets", self._options.read.start, extents)
            check_named("startingOffsetsByTimestamp", self._options.read.starting_times, extents)
            positions = {extent.topic: self._starting_position(extent) for extent in extents}
            name = self._name(None)
            if self._cursor is not None and name is not None:
                where = {
                    each.topic: (int(each.topic_id), positions[each.topic]) for each in extents
                }
                states = self._cursor.keep(name, {}, where, known=False)
                if not self._options.start_is_given:
                    # An existing subscription already has its position.
                    positions |= {
                        topic: state.next for topic, state in states.items() if not state.created
                    }
            topics = {
                each.topic: TopicOffset(
                    each.topic_id,
                    positions[each.topic],
                    messages_until(each, positions[each.topic]),
                )
                for each in extents
            }
            self._initial = StreamOffset(topics, name, initial=True)
        return self._initial

    def latest(self, start: StreamOffset, limits: Limits) -> StreamOffset:
        """Return where the micro-batch that begins at ``start`` ends; ``start`` when there is
        nothing to read. Everything before ``start`` is acknowledged.

        Raises :class:`.DataLossError` unless losses are allowed.
        """
        extents = self._look(required=False)
        continued, gone = continuations(start, extents, self._present)
        for loss in [*gone, *(each.loss for each in continued if each.loss is not None)]:
            self._options.read.lose(loss)
        backlogs = [each.backlog(self._until(each)) for each in continued]
        name = self._name(start)
        end = self._end(start, continued, backlogs, limits)
        if end is not start:
            end = replace(end, cursor=name)
            self._batch_s = self._now_s()
        states: dict[str, CursorState] = {}
        if self._cursor is not None and name is not None:
            done = acknowledged_by(start, self._extents)
            fresh = {
                each.extent.topic: (int(each.extent.topic_id), each.begin)
                for each in continued
                if each.extent.topic not in done
            }
            known = end is not start or (start.cursor == name and not start.initial)
            states = self._cursor.keep(name, done, fresh, known=known)
            self._acknowledged = done
            for topic, state in states.items():
                self._check_kept(topic, state, {**done, **fresh}[topic][1])
        self.report = self._look_back(continued, states)
        return end

    def spans(self, start: StreamOffset, end: StreamOffset) -> list[Span]:
        """Return what the executors read for the micro-batch from ``start`` to ``end``."""
        if not all(self._knows(topic, offset) for topic, offset in end.topics.items()):
            self._look(required=False)
        self._forget_initial_cursor(end)
        found: list[Span] = []
        for topic, begin in sorted(begins(start, end).items()):
            until = end.topics[topic].next
            if begin.next >= until:
                continue
            extent = self._extents.get(topic)
            if extent is None:
                self._options.read.lose(loss_of_topic(topic, begin, self._present))
                continue
            if extent.topic_id != begin.topic_id:
                what = (
                    f"topic {short_name(topic)} is gone, with everything after {render(begin.next)}"
                )
                self._options.read.lose(what)
                continue
            continued = continue_from(begin, extent)
            if continued.loss is not None:
                self._options.read.lose(continued.loss)
            found += [
                Span(extent.topic_id, topic, ledger.first, ledger.last, ledger.messages)
                for ledger in backlog_of(extent, begin.next, until).ledgers
            ]
        return found

    def finish(self, end: StreamOffset) -> None:
        """Acknowledge everything before ``end``, which Spark has finished."""
        name = self._name(end)
        done = acknowledged_by(end, self._extents)
        if self._cursor is not None and name is not None and done != self._acknowledged:
            self._cursor.keep(name, done, {}, known=True)
            self._acknowledged = done

    def fix_end(self) -> None:
        """Read nothing that is published from now on."""
        extents = self._look(required=False)
        self._targets = {each.topic: (each.topic_id, each.end) for each in extents}

    def _look(self, *, required: bool) -> list[Extent]:
        """Return what the topics hold now. ``required``: topics named in the options must exist."""
        self._present = self._source.topics()
        chosen, missing = self._options.read.topics.choose(self._present)
        if missing and required:
            selected_topics(self._source, self._options.read.topics)
        extents = self._source.extents(chosen)
        self._extents = {extent.topic: extent for extent in extents}
        return extents

    def _starting_position(self, extent: Extent) -> Position:
        read = self._options.read
        time_ms = read.starting_times.of(extent.topic)
        if time_ms is not None:
            if time_ms > self._now_s() * MS_PER_S:
                raise OptionError(
                    "startingTime", f"expected a time that is not in the future, got {time_ms}"
                )
            return position_at_time(self._source, extent, time_ms)
        for loss in losses_of(extent, read):
            read.lose(loss)
        return begin_in(extent, read.start)

    def _name(self, start: StreamOffset | None) -> str | None:
        """Return the cursor's name: the option's, else the checkpoint's, else a new one."""
        if self._cursor is None:
            return None
        known = self._options.subscription or (start and start.cursor) or self._made_name
        if known is None:
            known = self._made_name = f"{self._options.subscription_prefix}-{self._new_name()}"
        return known

    def _until(self, continued: Continuation) -> Position:
        """Return where the topic ends for this query."""
        if self._targets is None:
            return continued.extent.end
        topic_id, target = self._targets.get(continued.extent.topic, (None, continued.begin))
        return target if topic_id == continued.extent.topic_id else continued.begin

    def _end(
        self,
        start: StreamOffset,
        continued: Sequence[Continuation],
        backlogs: Sequence[Backlog],
        limits: Limits,
    ) -> StreamOffset:
        ends = admit(backlogs, limits)
        if self._waits(backlogs):
            ends = [backlog.begin for backlog in backlogs]
        return start.moved(
            {
                each.extent.topic: each.offset(end, initial=start.initial)
                for each, end in zip(continued, ends, strict=True)
                # A new topic is added once it has entries.
                if each.extent.topic in start.topics or end > each.begin
            }
        )

    def _waits(self, backlogs: Sequence[Backlog]) -> bool:
        """Return whether to wait, because a micro-batch would be too small."""
        least = self._options.messages_min
        if least is None or self._targets is not None or total(backlogs)[0] >= least:
            return False
        return self._now_s() - self._batch_s < self._options.trigger_delay_s

    def _check_kept(self, topic: str, state: CursorState, position: Position) -> None:
        """Report a loss if the cursor was created after entries of the query were removed."""
        if state.created and state.next > position:
            self._options.read.lose(
                f"topic {short_name(topic)} from {render(position)} to before "
                f"{render(state.next)}, removed when the cursor's lease had ended"
            )

    def _forget_initial_cursor(self, end: StreamOffset) -> None:
        """Give up the cursor of the initial offset that Spark requested again after a restart
        before the first batch was done: the cursor of the run that planned the batch keeps its
        entries."""
        made = self._made_name
        if self._cursor is not None and made is not None and end.cursor not in (None, made):
            self._cursor.give_up(made, list(self._extents))
            self._made_name = None

    def _knows(self, topic: str, offset: TopicOffset) -> bool:
        extent = self._extents.get(topic)
        return (
            extent is not None and extent.topic_id == offset.topic_id and extent.end >= offset.next
        )

    def _look_back(
        self, continued: Sequence[Continuation], states: Mapping[str, CursorState]
    ) -> Report:
        ends = {each.extent.topic: each.extent.end for each in continued}
        if states:
            return Report(
                ends,
                sum(each.messages for each in states.values()),
                sum(each.bytes_total for each in states.values()),
                max(each.age_s for each in states.values()),
            )
        messages, bytes_total = total([each.backlog() for each in continued])
        times = [
            published_ms(self._source, each.extent, each.begin)
            for each in continued
            if each.begin < each.extent.end
        ]
        oldest_ms = min((each for each in times if each is not None), default=None)
        age_s = 0 if oldest_ms is None else round(self._now_s() - oldest_ms / MS_PER_S)
        return Report(ends, messages, bytes_total, max(0, age_s))

    def __repr__(self) -> str:
        return f"<StreamPlanner of {len(self._extents)} topics, {self._cursor or 'no cursor'}>"
