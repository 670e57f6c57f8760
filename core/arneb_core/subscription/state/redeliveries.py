"""Redelivery counts: how often each entry was rejected.

The rule: forgetting everything up to a position costs what is forgotten, not what is kept. A client
may reject millions of messages and then acknowledge them one by one, cumulatively.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from arneb_core.api.entries.position import Position

CHUNK_BITS: Final = 12
"""Bits of a position inside its chunk; a chunk is forgotten as one."""


class RedeliveryCounts:
    """Counts by position, in chunks of neighbours.

    Invariant: no chunk is empty.
    """

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, dict[Position, int]] = {}

    def __repr__(self) -> str:
        return f"<RedeliveryCounts of {sum(map(len, self._chunks.values()))} entries>"

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def items(self) -> dict[Position, int]:
        """Return all counts."""
        return {
            position: count for chunk in self._chunks.values() for position, count in chunk.items()
        }

    def get(self, position: Position) -> int:
        """Return how often the entry was rejected; 0 if it never was."""
        chunk = self._chunks.get(position >> CHUNK_BITS)
        return chunk.get(position, 0) if chunk else 0

    def raise_(self, positions: Iterable[Position]) -> None:
        """Count each as rejected once more."""
        chunks = self._chunks
        for position in positions:
            chunk = chunks.get(position >> CHUNK_BITS)
            if chunk is None:
                chunk = chunks[position >> CHUNK_BITS] = {}
            chunk[position] = chunk.get(position, 0) + 1

    def of(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Return the counts of those of ``positions`` that have one."""
        return {position: count for position in positions if (count := self.get(position))}

    def update(self, counts: Mapping[Position, int]) -> None:
        """Put counts back."""
        for position, count in counts.items():
            self._chunks.setdefault(position >> CHUNK_BITS, {})[position] = count

    def forget(self, positions: Iterable[Position]) -> None:
        """Drop the counts of these."""
        chunks = self._chunks
        for position in positions:
            chunk = chunks.get(position >> CHUNK_BITS)
            if chunk is not None and chunk.pop(position, None) is not None and not chunk:
                del chunks[position >> CHUNK_BITS]

    def forget_through(self, position: Position) -> None:
        """Drop all counts up to ``position``."""
        last = position >> CHUNK_BITS
        for number in [each for each in self._chunks if each < last]:
            del self._chunks[number]
        chunk = self._chunks.get(last)
        if chunk is not None:
            self.forget([each for each in chunk if each <= position])

    def clear(self) -> None:
        """Drop all counts."""
        self._chunks.clear()
