"""Reading a span of the log in chunks that become Arrow batches.

The rule: nothing is held open at the source while rows are handed to Spark. The span was fixed
beforehand and its entries are dense, so anything that is not there was trimmed: a
:class:`~pyspark_arneb.plan.ranges.Loss`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from arneb_core.api.position import Position
from arneb_core.store.block import cut_run
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.plan.ranges import Loss, Span

ROWS_MAX: Final = 2048
"""Rows of an Arrow batch. Measured: fewer than 1024 pay for the batch, many more for fresh
memory, here and in the JVM."""

READ_BYTES: Final = 512 * 1024
"""How much is read at a time, to the end of the block with which it is reached."""

CHUNK_BYTES: Final = 512 * 1024
"""Entries of so many bytes make a chunk, even if they are fewer than :data:`ROWS_MAX`; with
what one read adds, a chunk stays near 1 MB unless one message is larger."""

PUBLISHED_MS: Final = slice(8, 16)
"""Where an entry's header has its publish time; see :mod:`arneb_core.api.entry`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entries and their positions; at most :data:`ROWS_MAX`, and all of one ledger."""

    positions: Sequence[int]
    """A ``range`` when the entries are consecutive, which is cheaper to work with."""
    entries: Sequence[bytes]


def read_chunks(source: BlockSource, span: Span, lose: Callable[[Loss], None]) -> Iterator[Chunk]:
    """The entries of ``span`` in order; ``lose`` is told what is not there any more."""
    gathered = _Gathered(span.first)
    while gathered.end <= span.last:
        blocks = source.read(span.topic_id, gathered.end, span.last, READ_BYTES)
        runs = [cut_run(*block.decode(), gathered.end, span.last) for block in blocks]
        for first, entries in runs or [(Position(span.last + 1), [])]:
            if first != gathered.end:
                yield from gathered.take_all()
                lose(Loss(span.topic, gathered.end, Position(first - 1)))
                gathered = _Gathered(first)
            gathered.entries += entries
        yield from gathered.take_full()
    yield from gathered.take_all()


class _Gathered:
    """Consecutive entries, read and not yet handed on."""

    __slots__ = ("entries", "first")

    def __init__(self, first: Position) -> None:
        self.first = first
        self.entries: list[bytes] = []

    @property
    def end(self) -> Position:
        """The first position that is not read yet."""
        return Position(self.first + len(self.entries))

    def take_full(self) -> Iterator[Chunk]:
        """Chunks that are large enough; the rest waits for what is read next."""
        while len(self.entries) >= ROWS_MAX:
            yield self._take(ROWS_MAX)
        if sum(map(len, self.entries)) >= CHUNK_BYTES:
            yield from self.take_all()

    def take_all(self) -> Iterator[Chunk]:
        """What there is, if anything; less than :data:`ROWS_MAX` entries."""
        if self.entries:
            yield self._take(len(self.entries))

    def _take(self, count: int) -> Chunk:
        taken, self.entries = self.entries[:count], self.entries[count:]
        first, self.first = self.first, Position(self.first + count)
        return Chunk(range(first, first + count), taken)


def published_between(chunk: Chunk, from_ms: int | None, until_ms: int | None) -> Chunk:
    """Those entries of the chunk that the broker took in [from_ms, until_ms)."""
    low = -1 if from_ms is None else from_ms
    high = 1 << 64 if until_ms is None else until_ms
    times = [int.from_bytes(entry[PUBLISHED_MS], "big") for entry in chunk.entries]
    kept = [low <= published < high for published in times]
    if all(kept):
        return chunk
    positions = [place for place, keep in zip(chunk.positions, kept, strict=True) if keep]
    entries = [entry for entry, keep in zip(chunk.entries, kept, strict=True) if keep]
    return Chunk(positions, entries)
