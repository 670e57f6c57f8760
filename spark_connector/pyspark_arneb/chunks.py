"""Reading a span of the log in chunks that become Arrow batches.

The rule: each read is a transaction of its own, closed before a row is handed to Spark, so
that a slow query never keeps the broker from using its pages again. The span was fixed
beforehand and its entries are dense, so anything that is not there was trimmed: a
:class:`~pyspark_arneb.ranges.Loss`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from arneb_core.position import Position
from pyspark_arneb.ranges import Loss, Span

if TYPE_CHECKING:
    from arneb_core.store.snapshot import SnapshotEnvironment

ROWS_MAX: Final = 2048
"""Rows of an Arrow batch: measured, 1024 to 2048 are the fastest; fewer pay for the batch, more
for fresh memory."""

READ_BYTES: Final = 768 * 1024
"""Entries are read about so many bytes at a time; with the block that reaches the limit it
stays below 1 MiB, unless one message is larger."""

PUBLISHED_MS: Final = slice(8, 16)
"""Where an entry's header has its publish time; see :mod:`arneb_core.entry`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entries and their positions; at most :data:`ROWS_MAX`, and all of one ledger."""

    positions: Sequence[Position]
    """A ``range`` when the entries are consecutive, which is cheaper to work with."""
    entries: Sequence[bytes]


def read_chunks(
    environment: "SnapshotEnvironment", span: Span, lose: Callable[[Loss], None]
) -> Iterator[Chunk]:
    """The entries of ``span`` in order; ``lose`` is told what is not there any more."""
    expected = span.first
    while expected <= span.last:
        with environment.snapshot() as snapshot:
            runs = snapshot.read_blocks(
                span.topic_id, expected, bytes_max=READ_BYTES, last=span.last
            )
        if not runs:
            lose(Loss(span.topic, expected, span.last))
            return
        for first, entries in _joined(runs):
            if first != expected:
                lose(Loss(span.topic, expected, Position(first - 1)))
            yield from _pieces(first, entries)
            expected = Position(first + len(entries))


def _joined(runs: list[tuple[Position, list[bytes]]]) -> Iterator[tuple[Position, list[bytes]]]:
    """The runs, with those that are consecutive made one."""
    first, joined = runs[0]
    for place, entries in runs[1:]:
        if place == first + len(joined):
            joined += entries
        else:
            yield first, joined
            first, joined = place, entries
    yield first, joined


def _pieces(first: Position, entries: list[bytes]) -> Iterator[Chunk]:
    """Chunks of about equal length."""
    pieces = -(-len(entries) // ROWS_MAX)
    size = -(-len(entries) // pieces)
    for start in range(0, len(entries), size):
        piece = entries[start : start + size]
        positions = range(first + start, first + start + len(piece))
        yield Chunk(positions, piece)  # type: ignore[arg-type]  # a range of ints, not Positions


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
