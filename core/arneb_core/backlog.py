"""A backlog reader: the entries that a subscription has read but nobody has taken yet.

The rule: it reads ahead of need, in log order, from memory if the entries are there and
otherwise off the event loop; it skips what is acknowledged; and what it holds is bounded
by :data:`AHEAD_BYTES`. Replays are fetched apart, so that they can overtake.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from arneb_core.acks import AckState
from arneb_core.log import Log
from arneb_core.position import Position

RUN_ENTRIES_MAX: Final = 512
"""Entries dispatched at a time: long enough to make the cost of a run vanish, short enough
that a slow peer's back-pressure is noticed before much more is on its way."""

READ_BYTES: Final = 1024 * 1024
"""One read of the store: a thousand entries of 1 KiB, some hundred microseconds."""

AHEAD_BYTES: Final = 512 * 1024
"""Below this the next read is started, so that it is there when this one is used up."""


@dataclass(slots=True)
class Chunk:
    """Entries at hand, in log order; ``[start:]`` is not handed out yet."""

    positions: list[Position]
    entries: list[bytes]
    start: int = 0


class BacklogReader:
    """Reads one subscription's part of a log."""

    def __init__(self, log: Log, acks: AckState, after: Position, wake: Callable[[], None]) -> None:
        self._log = log
        self._acks = acks
        self._wake = wake
        self._chunks: list[Chunk] = []
        self._bytes = 0
        self._reading = False
        self._generation = 0
        self.after = after
        """Everything up to here was handed out or needs no handing out."""
        self._ahead = after
        """Everything up to here is in chunks or was handed out."""

    @property
    def ahead(self) -> Position:
        """Everything up to here is at hand or was handed out."""
        return self._ahead

    def __repr__(self) -> str:
        return f"<BacklogReader after {self.after}, {self._bytes} bytes ahead>"

    @property
    def is_reading(self) -> bool:
        """A read of the store is under way; the wake call-back follows it."""
        return self._reading

    def rewind(self, after: Position) -> None:
        """Go on behind ``after``, forgetting what was read."""
        self._generation += 1
        self._reading = False
        self._chunks = []
        self._bytes = 0
        self.after = self._ahead = after

    def refresh(self) -> None:
        """Something unread was acknowledged: read what is ahead once more."""
        self.rewind(self.after)

    def take(self, positions: list[Position]) -> None:
        """``positions``, the first of :meth:`peek`, were handed out."""
        chunk = self._chunks[0]
        stop = chunk.start + len(positions)
        self._bytes -= sum(map(len, chunk.entries[chunk.start : stop]))
        self.after = chunk.positions[stop - 1]
        chunk.start = stop
        if stop == len(chunk.positions):
            self._chunks.pop(0)
            if not self._chunks:
                self.after = self._ahead

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """The next entries to hand out, at most :data:`RUN_ENTRIES_MAX`; None when none are
        at hand now (nothing is left, or a read is under way)."""
        self._read_on()
        if not self._chunks:
            return None
        chunk = self._chunks[0]
        stop = chunk.start + RUN_ENTRIES_MAX
        if chunk.start == 0 and stop >= len(chunk.positions):
            return chunk.positions, chunk.entries
        return chunk.positions[chunk.start : stop], chunk.entries[chunk.start : stop]

    def _read_on(self) -> None:
        while not self._reading and (not self._chunks or self._bytes < AHEAD_BYTES):
            following = self._log.ledgers.after(max(self._ahead, self._acks.mark_delete))
            if following is None:
                return
            hot = self._log.read_hot(following, RUN_ENTRIES_MAX)
            if hot is not None:
                if self._chunks:  # what is in memory stays there; no need to hold it here
                    return
                self._add(*hot)
                continue
            self._reading = True
            self._log.read_cold(
                following, READ_BYTES, partial(self._read, self._generation, following)
            )

    def _read(
        self, generation: int, asked: Position, runs: list[tuple[Position, list[bytes]]]
    ) -> None:
        if generation != self._generation:
            return
        self._reading = False
        for first, entries in runs:
            self._add(first, entries)
        if not runs:
            # Trimmed between asking and reading; the ledgers say by now where the log begins.
            self._ahead = max(self._ahead, asked)
        self._wake()

    def _add(self, first: Position, entries: list[bytes]) -> None:
        last = Position(first + len(entries) - 1)
        acks = self._acks
        positions: list[Position]
        if acks.mark_delete < first and not acks.holes:
            positions = cast(list[Position], list(range(first, last + 1)))
        else:
            low = Position(max(first - 1, acks.mark_delete))
            positions = acks.unacknowledged(low, last, len(entries)) if low < last else []
            entries = [entries[place - first] for place in positions]
        self._ahead = last
        if positions:
            self._chunks.append(Chunk(positions, entries))
            self._bytes += sum(map(len, entries))
        elif not self._chunks:
            self.after = last
