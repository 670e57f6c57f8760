"""Outcomes: how transactions have ended, for as long as clients may ask.

The rule: an outcome is a row of its own in the commit that ends the transaction; from time to time
these rows are gathered, in one commit, into one row of number sets, at about a bit per outcome. So
a million outcomes are neither a million rows nor hundreds of megabytes. A row of many goes when the
last of its outcomes is no longer kept, and never because the clock was set forward
(:class:`Patience`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pyroaring import BitMap64

from arneb_pulsar.transactions.states import TransactionState

KEPT_MS: Final = 3_600_000
"""An outcome is kept for the time-out of its transaction and an hour: a client that has not heard
it by then has given up."""

SET_FORWARD_MS: Final = 60_000
"""A time of day that gains more than this between two looks was set."""

NONE_LAPSED: Final[Mapping[int, int]] = {}

ONE: Final = "pulsar/transaction/outcome/"
"""Key prefix of single outcomes; the transaction's number follows."""

MANY: Final = "pulsar/transaction/outcomes/"
"""Key prefix of rows of many; an ascending number follows."""

ONE_VALUE: Final = Struct(">BQ")
MANY_VALUE: Final = Struct(">QI")

Rows = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Many:
    """Outcomes in one row."""

    number: int
    until_ms: int
    committed: BitMap64 = field(default_factory=BitMap64)
    aborted: BitMap64 = field(default_factory=BitMap64)

    def pack(self) -> bytes:
        """Return the row's value."""
        committed = self.committed.serialize()
        head = MANY_VALUE.pack(self.until_ms, len(committed))
        return head + committed + self.aborted.serialize()

    @classmethod
    def unpack(cls, number: int, value: bytes) -> "Many":
        """Read a row's value. Raises :class:`ValueError`."""
        if len(value) <= MANY_VALUE.size:
            raise ValueError(f"expected more than {MANY_VALUE.size} bytes, got {len(value)}")
        until_ms, length = MANY_VALUE.unpack_from(value)
        at = MANY_VALUE.size
        committed = BitMap64.deserialize(value[at : at + length])
        return cls(number, until_ms, committed, BitMap64.deserialize(value[at + length :]))


class Patience:
    """Whether outcomes may go: not within an hour of a start, or of a clock that was set forward.
    Clients may still ask, whatever the clock says."""

    def __init__(self, now_ms: int, now_s: float) -> None:
        self._looked = now_ms, now_s
        self._since_s = now_s

    def __repr__(self) -> str:
        return f"<Patience since {self._since_s:.0f} s>"

    def is_over(self, now_ms: int, now_s: float) -> bool:
        """Return whether they may go. ``now_s`` is the event loop's time, ``now_ms`` the time of
        day."""
        before_ms, before_s = self._looked
        self._looked = now_ms, now_s
        if now_ms - before_ms - 1000 * (now_s - before_s) > SET_FORWARD_MS:
            self._since_s = now_s
        return 1000 * (now_s - self._since_s) >= KEPT_MS


class Outcomes:
    """How the transactions of one coordinator have ended, by their numbers."""

    def __init__(self, rows: Mapping[str, bytes]) -> None:
        """``rows``: the stored outcomes."""
        self._singles: dict[int, tuple[bool, int]] = {}
        """By number, whether it was committed, and until when that is kept."""
        self._many: list[Many] = []
        for key, value in rows.items():
            if key.startswith(ONE):
                committed, until_ms = ONE_VALUE.unpack(value)
                self._singles[int(key.removeprefix(ONE))] = bool(committed), until_ms
            elif key.startswith(MANY):
                self._many.append(Many.unpack(int(key.removeprefix(MANY)), value))
        self._next = max((each.number for each in self._many), default=0) + 1

    def __repr__(self) -> str:
        return f"<Outcomes {len(self._singles)} single, {len(self._many)} rows of many>"

    @property
    def singles(self) -> int:
        """How many outcomes have rows of their own."""
        return len(self._singles)

    def find(self, number: int) -> TransactionState | None:
        """Return how that transaction ended; None if it did not, or that is no longer kept."""
        if (single := self._singles.get(number)) is not None:
            return TransactionState.COMMITTED if single[0] else TransactionState.ABORTED
        for each in self._many:
            if number in each.committed:
                return TransactionState.COMMITTED
            if number in each.aborted:
                return TransactionState.ABORTED
        return None

    def row(self, number: int, until_ms: int, *, committed: bool) -> tuple[str, bytes]:
        """Return the row that the commit ending a transaction writes."""
        return f"{ONE}{number}", ONE_VALUE.pack(committed, until_ms)

    def stored(self, number: int, until_ms: int, *, committed: bool) -> None:
        """Note that the commit is on disk."""
        self._singles[number] = committed, until_ms

    def gathered(
        self, now_ms: int, *, may_go: bool = True, lapsed: Mapping[int, int] = NONE_LAPSED
    ) -> "Gathered":
        """Return the change that gathers single rows, and removes rows no longer kept if they
        ``may_go``. ``lapsed``: numbers that count as aborted unless they have an outcome, and until
        when that is kept."""
        gone = [each for each in self._many if each.until_ms <= now_ms] if may_go else []
        rows: Rows = [(f"{MANY}{each.number}", None) for each in gone]
        singles = dict(self._singles)
        made = None
        for number, until_ms in lapsed.items():
            if self.find(number) is None:
                singles[number] = False, until_ms
        if singles:
            made = Many(self._next, max(until_ms for _, until_ms in singles.values()))
            self._next += 1
            made.committed.update(each for each, (committed, _) in singles.items() if committed)
            made.aborted.update(each for each, (committed, _) in singles.items() if not committed)
            rows.append((f"{MANY}{made.number}", made.pack()))
            rows += [(f"{ONE}{each}", None) for each in self._singles]
        return Gathered(rows, list(self._singles), made, gone)

    def written(self, gathered: "Gathered") -> None:
        """Note that ``gathered`` is on disk."""
        for each in gathered.singles:
            del self._singles[each]
        if gathered.made is not None:
            self._many.append(gathered.made)
        self._many = [each for each in self._many if each not in gathered.gone]


@dataclass(frozen=True, slots=True)
class Gathered:
    """Single outcomes gathered into a row of many, and rows to remove."""

    rows: Rows
    singles: Sequence[int]
    made: Many | None
    gone: Sequence[Many]
