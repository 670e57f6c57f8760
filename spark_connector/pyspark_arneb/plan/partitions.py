"""The division of a read into partitions; pure.

The rule: partitions are disjoint, follow the log's order, cover the spans exactly, and none
is empty. The two sizes are hints as in Kafka's source: a single entry is never divided, and
the messages in an open ledger are an estimate.
"""

from collections.abc import Sequence
from typing import Final

from pyspark_arneb.plan.ranges import Span

Partition = tuple[Span, ...]

MESSAGES_WORTH_A_TASK: Final = 4096
"""Without ``minPartitions`` no partition is made smaller than this on purpose: a task costs about
as much as reading this many messages, however few entries hold them."""


def divide(
    spans: Sequence[Span],
    *,
    parallelism: int,
    partitions_min: int | None = None,
    records_max: int | None = None,
) -> list[Partition]:
    """Divide ``spans`` into partitions of about equally many messages.

    Makes ``partitions_min`` partitions (without it at most ``parallelism``), more if
    ``records_max`` requires it, fewer only when there are fewer entries.
    """
    messages = sum(span.messages for span in spans)
    entries = sum(span.entries for span in spans)
    wanted = partitions_min or min(parallelism, -(-messages // MESSAGES_WORTH_A_TASK))
    if records_max is not None:
        wanted = max(wanted, -(-messages // records_max))
    parts = _slice(spans, _even_cuts(spans, min(wanted, entries)))
    if records_max is None:
        return parts
    return [piece for part in parts for piece in _bounded(part, records_max)]


def _even_cuts(spans: Sequence[Span], parts: int) -> list[int]:
    """Return where to cut the entries, counted over all spans, into ``parts`` parts of about
    equally many messages; every part gets at least one entry."""
    messages = sum(span.messages for span in spans)
    entries = sum(span.entries for span in spans)
    cuts: list[int] = []
    at = 0
    for number in range(1, parts):
        ideal = _entries_within(spans, messages * number // parts)
        at = min(max(ideal, at + 1), entries - (parts - number))
        cuts.append(at)
    return cuts


def _entries_within(spans: Sequence[Span], messages: int) -> int:
    """Return the largest number of entries from the start that hold at most ``messages``
    messages."""
    entries = 0
    for span in spans:
        if span.messages > messages:
            # The largest n with span.messages_before(n) <= messages.
            return entries + ((messages + 1) * span.entries - 1) // span.messages
        messages -= span.messages
        entries += span.entries
    return entries


def _slice(spans: Sequence[Span], cuts: Sequence[int]) -> list[Partition]:
    """Cut ``spans`` at the given counts of entries, which must increase."""
    parts: list[Partition] = []
    current: list[Span] = []
    room = [end - start for start, end in zip([0, *cuts], cuts, strict=False)]
    for span in spans:
        while room and span.entries > room[0]:
            if room[0]:
                head, span = span.cut(room[0])
                current.append(head)
            parts.append(tuple(current))
            current = []
            room.pop(0)
        current.append(span)
        if room:
            room[0] -= span.entries
    return [part for part in (*parts, tuple(current)) if part]


def _bounded(part: Partition, records_max: int) -> list[Partition]:
    """Return the partition, divided if it exceeds ``records_max``; only a single entry may."""
    cuts: list[int] = []
    done = filled = 0
    for span in part:
        for entries, messages in _pieces(span, records_max):
            if filled and filled + messages > records_max:
                cuts.append(done)
                filled = 0
            done += entries
            filled += messages
    return _slice(part, cuts) if cuts else [part]


def _pieces(span: Span, records_max: int) -> list[tuple[int, int]]:
    """Return parts of the span, as (entries, messages), each within ``records_max`` if possible."""
    if span.messages <= records_max:
        return [(span.entries, span.messages)]
    step = max(1, records_max * span.entries // span.messages)
    ends = [*range(step, span.entries, step), span.entries]
    before = [0, *map(span.messages_before, ends)]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return [
        (entries, after - start)
        for entries, start, after in zip(counts, before, before[1:], strict=False)
    ]
