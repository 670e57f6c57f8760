"""Reading a span of the log in chunks that become Arrow batches.

The rule: nothing is held open at the source while rows are passed on. The span was fixed beforehand
and its entries are dense, so any entry that is missing was trimmed: a
:class:`~pyspark_arneb.plan.ranges.Loss`. Entries that are not as they were written are
:class:`Damage`, which never prevents the others from being read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from arneb_core.api.entries.position import Position, ledger_of, position_at, render
from arneb_core.store.format.block import BlockCorrupt, BodyLost, block_span, cut_run, whole_parts
from arneb_core.store.reading.stored_blocks import StoredBlock
from pyspark_arneb.decode.heads import PUBLISHED_OFFSET, Heads
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.plan.ranges import Loss, Span

ROWS_MAX: Final = 2048
"""Rows of an Arrow batch. Measured: fewer than 1024 pay for the batch, many more for fresh
memory, here and in the JVM."""

READ_BYTES: Final = 512 * 1024
"""Bytes read at a time; a read ends with the block that reaches this."""

CHUNK_BYTES: Final = 512 * 1024
"""Entries of this many bytes make a chunk, even if they are fewer than :data:`ROWS_MAX`; with what
one read adds, a chunk stays near 1 MB unless one message is larger."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entries, their headers and their positions; at most :data:`ROWS_MAX`, all of one ledger."""

    positions: Sequence[int]
    """A ``range`` when the entries are consecutive, which is cheaper to work with."""
    entries: Sequence[bytes]
    heads: Heads

    def picked(self, wanted: Sequence[bool]) -> "Chunk | None":
        """Return the wanted entries as a chunk; None if there are none."""
        if all(wanted):
            return self
        entries = [entry for entry, keep in zip(self.entries, wanted, strict=True) if keep]
        if not entries:
            return None
        places = [place for place, keep in zip(self.positions, wanted, strict=True) if keep]
        return chunk_of(places, entries)


@dataclass(frozen=True, slots=True)
class Damage:
    """Stored entries that can no longer be read; both ends included."""

    topic: str
    first: Position
    last: Position
    reason: str
    stored: bytes
    """The block, or the entry if only that one is damaged."""
    start: Position
    """Its first position in the log, as far as that is known; it may be before the part that is
    read."""

    def __str__(self) -> str:
        return (
            f"topic {self.topic}, entries {render(self.first)} to {render(self.last)} are damaged: "
            f"{self.reason}"
        )


def chunk_of(positions: Sequence[int], entries: Sequence[bytes]) -> Chunk:
    """Return a chunk of entries whose headers are known to be valid."""
    heads = Heads.of(entries)
    assert heads is not None, "read_chunks() hands out sound headers only"
    return Chunk(positions, entries, heads)


def read_chunks(
    source: BlockSource, span: Span, lose: Callable[[Loss], None]
) -> Iterator[Chunk | Damage]:
    """Yield the entries of ``span`` in order; ``lose`` is called with what is no longer there."""
    gathered = _Gathered(span)
    while (start := gathered.end) <= span.last:
        blocks = source.read(span.topic_id, gathered.end, span.last, READ_BYTES)
        for block in blocks:
            for found in _contents(block, span, gathered.end):
                first = found.first if isinstance(found, Damage) else found[0]
                if first > gathered.end:
                    yield from gathered.take_all()
                    lose(_trimmed(span, gathered.end, Position(first - 1)))
                    gathered.continue_at(first)
                if isinstance(found, Damage):
                    yield from gathered.take_all()
                    yield found
                    gathered.continue_at(Position(found.last + 1))
                else:
                    gathered.entries += found[1]
        if gathered.end == start:
            # Nothing of the span is left; reading again would never end.
            yield from gathered.take_all()
            lose(_trimmed(span, gathered.end, span.last))
            return
        yield from gathered.take_full()
    yield from gathered.take_all()


def _trimmed(span: Span, first: Position, last: Position) -> Loss:
    return Loss(span.topic, first, last, topic_id=span.topic_id)


def _contents(
    block: StoredBlock, span: Span, first: Position
) -> Iterator[tuple[Position, list[bytes]] | Damage]:
    """Yield the block's part of [``first``, the span's end]: runs of entries, and damage."""
    try:
        run = cut_run(*block.decode(), first, span.last)
    except BodyLost as problem:
        yield from _whole_parts(block, span, first, str(problem))
    except BlockCorrupt as problem:
        yield _damage(block, span, first, str(problem))
    else:
        if run[1]:
            yield run
        elif run[0] <= span.last:
            reason = f"expected entries up to {render(block.last)}, as the block's key says"
            yield _damage(block, span, first, reason)


def _whole_parts(
    block: StoredBlock, span: Span, first: Position, reason: str
) -> Iterator[tuple[Position, list[bytes]] | Damage]:
    """Yield a block's runs of entries, and as damage the entries whose body is lost."""
    place, count = block_span(block.value)
    end = Position(place + count)

    def lost(until: Position) -> Iterator[Damage]:
        start, last = Position(max(place, first)), Position(min(until - 1, span.last))
        if start <= last:
            yield Damage(span.topic, start, last, reason, b"", place)

    for part_first, entries, _ in whole_parts(block.value, block.find_body):
        yield from lost(part_first)
        place = Position(part_first + len(entries))
        run = cut_run(part_first, entries, first, span.last)
        if run[1]:
            yield run
    yield from lost(end)


def _damage(block: StoredBlock, span: Span, first: Position, reason: str) -> Damage:
    """Describe a block that cannot be decoded: its key says where it ends, and its head, if valid,
    where it begins."""
    start = Position(max(first, position_at(ledger_of(block.last), 0)))
    try:
        claimed, count = block_span(block.value)
        if claimed + count - 1 == block.last:
            start = claimed
    except BlockCorrupt:
        pass
    last = min(block.last, span.last)
    return Damage(span.topic, Position(max(start, first)), last, reason, block.value, start)


class _Gathered:
    """Consecutive entries, read and not yet passed on."""

    __slots__ = ("_topic", "entries", "first")

    def __init__(self, span: Span) -> None:
        self._topic = span.topic
        self.first = span.first
        self.entries: list[bytes] = []

    @property
    def end(self) -> Position:
        """The first position that is not read yet."""
        return Position(self.first + len(self.entries))

    def continue_at(self, first: Position) -> None:
        """Continue at ``first``, after a gap."""
        assert not self.entries, "what was gathered is handed on first"
        self.first = first

    def take_full(self) -> Iterator[Chunk | Damage]:
        """Take the chunks that are large enough; the rest waits for the next read."""
        while len(self.entries) >= ROWS_MAX:
            yield from self._take(ROWS_MAX)
        if sum(map(len, self.entries)) >= CHUNK_BYTES:
            yield from self.take_all()

    def take_all(self) -> Iterator[Chunk | Damage]:
        """Take all that is left."""
        while self.entries:
            yield from self._take(min(len(self.entries), ROWS_MAX))

    def _take(self, count: int) -> Iterator[Chunk | Damage]:
        taken, self.entries = self.entries[:count], self.entries[count:]
        first, self.first = self.first, Position(self.first + count)
        heads = Heads.of(taken)
        if heads is not None:
            yield Chunk(range(first, first + count), taken, heads)
            return
        for place, entry in enumerate(taken, first):
            heads = Heads.of([entry])
            if heads is not None:
                yield Chunk(range(place, place + 1), [entry], heads)
            else:
                reason = "expected the header of an entry of a known format and origin"
                at = Position(place)
                yield Damage(self._topic, at, at, reason, entry, at)


def published_between(chunk: Chunk, from_ms: int | None, until_ms: int | None) -> Chunk | None:
    """Return the chunk's entries that the broker received in [from_ms, until_ms), if any."""
    times = chunk.heads.numbers(PUBLISHED_OFFSET, 8)
    kept = pa.repeat(pa.scalar(True), len(times))
    if from_ms is not None:
        kept = pc.and_(kept, pc.greater_equal(times, pa.scalar(max(from_ms, 0), pa.uint64())))
    if until_ms is not None:
        kept = pc.and_(kept, pc.less(times, pa.scalar(max(until_ms, 0), pa.uint64())))
    return chunk.picked(kept.to_pylist())
