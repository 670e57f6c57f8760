"""The replay set: entries that came back and are due again, in their original order.

The rule: replays are sorted by position and go before anything new. Their bytes are fetched when
they are needed, a range at a time, because ten million returned positions cost little and their
entries would cost gigabytes.
"""

from collections.abc import Iterable
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position, before
from arneb_core.log.durable_log import Runs
from arneb_core.log.memory_log import Log
from arneb_core.subscription.sources.fetch import Fetch

REPLAY_RUN_MAX: Final = 256
"""Replays handed out at a time."""

REPLAY_RUN_MIN: Final = 8
"""Replays looked at when few are taken at a time: a consumer with a prefetch of one must not cost a
look at hundreds for each."""

REPLAY_READ_BYTES: Final = 256 * 1024
"""Bytes of one read for replays; they are often scattered, so it is less than a backlog read."""


class ReplaySet:
    """The replays of one subscription."""

    is_sorting = False
    """Its front is known at once."""

    def __init__(self, log: Log, fetch: Fetch) -> None:
        self._log = log
        self.fetch = fetch
        self._positions = BitMap64()
        self._fetched: dict[Position, bytes] = {}
        self.kept_bytes = 0
        """Bytes that came by :meth:`keep`, at most."""
        self._run_max = REPLAY_RUN_MIN
        self._aside = BitMap64()
        """Replays that cannot go now, and must not hold up those behind them."""

    def __repr__(self) -> str:
        return f"<ReplaySet {len(self._positions)} entries>"

    def __len__(self) -> int:
        return len(self._positions)

    def __bool__(self) -> bool:
        return bool(self._positions)

    @property
    def first(self) -> Position | None:
        """The lowest replay."""
        return Position(self._positions.min()) if self._positions else None

    @property
    def positions(self) -> BitMap64:
        """All replays. Live; not to be changed."""
        return self._positions

    def add(self, positions: Iterable[Position]) -> None:
        """Have ``positions`` delivered again."""
        self._positions.update(positions)

    def keep(self, entries: Iterable[tuple[Position, bytes]]) -> None:
        """Keep the bytes of replays that the caller has just added, and has read already."""
        for position, entry in entries:
            self._fetched[position] = entry
            self.kept_bytes += len(entry)

    def set_aside(self, positions: Iterable[Position]) -> None:
        """:meth:`peek` passes over these until :meth:`bring_back`."""
        self._aside.update(positions)

    def bring_back(self, positions: Iterable[Position]) -> None:
        """Let those of ``positions`` that are still here go again."""
        self._aside.difference_update(BitMap64(positions))

    @property
    def aside(self) -> int:
        """How many are set aside."""
        return self._aside.intersection_cardinality(self._positions) if self._aside else 0

    def discard(self, positions: Iterable[Position]) -> None:
        """Remove ``positions``, which were acknowledged or handed out."""
        if self._positions:
            self._positions.difference_update(BitMap64(positions))
            if not self._positions:
                self._aside.clear()
                self.drop_cached()

    def discard_through(self, position: Position) -> None:
        """Remove everything up to ``position``, which was acknowledged."""
        if self._positions:
            self._positions.remove_range(0, position + 1)
            if not self._positions:
                self.drop_cached()

    def clear(self) -> None:
        """Forget everything."""
        self._positions.clear()
        self._aside.clear()
        self.drop_cached()

    def drop_cached(self) -> None:
        """Drop the entries held; they are read again when they are needed."""
        self._fetched.clear()
        self.kept_bytes = 0
        self.fetch.forget()

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """Return the lowest replays that are not set aside and whose entries are at hand; None
        while they are being read, or when they could not be.

        Replays whose entries the log no longer has are dropped.
        """
        while (ready := self._ready) and self.fetch.is_free:
            positions: list[Position] = []
            entries: list[bytes] = []
            for number in ready[: self._run_max]:
                position = Position(number)
                entry = self._fetched.get(position)
                if entry is None:
                    hot = self._log.read_hot(position, 1)
                    if hot is None:
                        break
                    entry = hot[1][0]
                positions.append(position)
                entries.append(entry)
            if positions:
                return positions, entries
            self._fetch(Position(ready[0]))
        return None

    @property
    def has_ready(self) -> bool:
        """Some are not set aside."""
        return bool(self._ready)

    @property
    def _ready(self) -> BitMap64:
        return self._positions - self._aside if self._aside else self._positions

    def find(self, position: Position) -> bytes | None:
        """Return the entry of the replay at ``position``; None while it is being read, when it
        could not be, or when the log no longer has it and the replay is dropped."""
        entry = self._fetched.get(position)
        if entry is None:
            hot = self._log.read_hot(position, 1)
            if hot is not None:
                return hot[1][0]
            if self.fetch.is_free:
                self._fetch(position)
        return entry

    def take(self, positions: list[Position]) -> None:
        """Remove ``positions``, which were handed out."""
        self._run_max = min(REPLAY_RUN_MAX, max(REPLAY_RUN_MIN, 2 * len(positions)))
        for position in positions:
            self._fetched.pop(position, None)
        self.discard(positions)

    def _fetch(self, position: Position) -> None:
        following = self._log.after(before(position))
        if following != position:
            # Lower replays may still be here, waiting for something else.
            end = position if following is None else before(following)
            self._positions.remove_range(position, end + 1)
            if not self._positions:
                self.drop_cached()
            return
        self.fetch.ask(position, REPLAY_READ_BYTES, lambda runs: self._read(position, runs))

    def _read(self, position: Position, runs: Runs) -> None:
        self._fetched, self.kept_bytes = {}, 0
        for first, entries in runs:
            wanted = self._positions & BitMap64(range(first, first + len(entries)))
            self._fetched.update((Position(each), entries[each - first]) for each in wanted)
        if position not in self._fetched:
            self.discard([position])  # trimmed, or acknowledged, while it was being read
