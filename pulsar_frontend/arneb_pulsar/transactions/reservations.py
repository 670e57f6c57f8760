"""Reservations: transaction numbers that may be given out without a commit for each.

The rule: before the first number of a range is given out, a row on disk names the owner of the
range's transactions and their time-out. So a transaction in which nothing was done yet is known
after a crash to the client that opened it. The first thing done in one brings a record of its own
(:class:`.records.Opened`), and one that stays idle gets one too; the range is then not needed for
it.

Only clients that open one transaction after the other get ranges: the first two are each recorded.
"""

import json
import struct
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from arneb_pulsar.transactions.records import Opened

RESERVED: Final = "pulsar/transaction/reserved/"
"""Key prefix of rows; the first number follows."""

VALUE: Final = Struct(">QQI")

COUNT_MIN: Final = 32
COUNT_MAX: Final = 1_024
"""Numbers of a range: twice as many as of the one before, if half of that was given out in less
than half of its time. One commit for that many transactions is enough, and numbers run out."""

GIVEN_MS: Final = 10_000
"""How long numbers of a range are given out. A transaction known only by its range may live this
much longer, since nobody knows when it was opened."""

SEEN_MAX: Final = 64
"""Pairs of owner and time-out that are remembered to have opened transactions."""

Rows = list[tuple[str, bytes | None]]
Owner = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserved range of numbers."""

    first: int
    count: int
    given_until_ms: int
    timeout_ms: int
    owner: Owner

    @property
    def key(self) -> str:
        """The key of its row."""
        return f"{RESERVED}{self.first}"

    def gives(self, now_ms: int) -> bool:
        """Whether its numbers may be given out now. If the clock was set back they may not: the
        range would outlive the outcomes of its transactions, and open them again."""
        return self.given_until_ms - GIVEN_MS <= now_ms < self.given_until_ms

    @property
    def opened(self) -> Opened:
        """What is known of each of its transactions: the latest time of its opening."""
        return Opened(self.given_until_ms, self.timeout_ms, self.owner)

    @property
    def numbers(self) -> range:
        """Its numbers, given out or not."""
        return range(self.first, self.first + self.count)

    def pack(self) -> bytes:
        """Return the row's value."""
        head = VALUE.pack(self.given_until_ms, self.timeout_ms, self.count)
        return head + json.dumps(self.owner).encode()

    @classmethod
    def unpack(cls, key: str, value: bytes) -> "Reserved":
        """Read a row. Raises :class:`ValueError`."""
        try:
            given_until_ms, timeout_ms, count = VALUE.unpack_from(value)
            role, original = json.loads(value[VALUE.size :])
        except (struct.error, TypeError) as error:
            raise ValueError(f"expected a range of transactions: {error}") from error
        first = int(key.removeprefix(RESERVED))
        return cls(first, count, given_until_ms, timeout_ms, (role, original))


class _Line:
    """The ranges of one owner and time-out: the one in use, and the next."""

    __slots__ = ("count", "following", "is_under_way", "next", "now")

    def __init__(self) -> None:
        self.count = COUNT_MIN
        """The size of the next range."""
        self.now: Reserved | None = None
        self.next = 0
        """The next number of ``now``."""
        self.following: Reserved | None = None
        self.is_under_way = False
        """A row is on its way to disk."""

    def __repr__(self) -> str:
        return f"<_Line at {self.next} of {self.now}>"

    def take(self, now_ms: int) -> tuple[int, Reserved] | None:
        """Return the next number, and its range; None if there is none."""
        while self.now is not None:
            number = self.next
            if self.now.gives(now_ms) and number < self.now.first + self.now.count:
                self.next += 1
                return number, self.now
            self.use(self.following)
        return None

    def drop_ended(self, now_ms: int) -> None:
        """Drop ranges whose time is up, so that they give nothing even if the clock is set back."""
        while self.now is not None and not self.now.gives(now_ms):
            self.use(self.following)

    def use(self, reserved: Reserved | None) -> None:
        """Give out numbers of this range from now on."""
        self.now, self.following = reserved, None
        self.next = 0 if reserved is None else reserved.first

    def wants(self, now_ms: int) -> bool:
        """Whether another range is needed: half of the last is given out, or half of its time is
        up."""
        now = self.now
        if self.is_under_way or self.following is not None:
            return False
        if now is not None and 2 * (self.next - now.first) >= now.count:
            self.count = min(2 * now.count, COUNT_MAX)
            return True
        return now is None or 2 * (now.given_until_ms - now_ms) <= GIVEN_MS


class Reservations:
    """The ranges of one coordinator."""

    def __init__(self, rows: Mapping[str, bytes]) -> None:
        """``rows``: the stored ranges."""
        self._found = [Reserved.unpack(key, value) for key, value in rows.items()]
        """Ranges from before the start."""
        self._lines: OrderedDict[tuple[Owner, int], _Line] = OrderedDict()
        self._stored: dict[int, Reserved] = {}
        """Ranges of this process that have rows, by their first numbers."""

    def __repr__(self) -> str:
        return f"<Reservations, {len(self._stored)} ranges, {len(self._found)} from before>"

    @property
    def has_earlier(self) -> bool:
        """Whether there are ranges from before the start."""
        return bool(self._found)

    def take(self, owner: Owner, timeout_ms: int, now_ms: int) -> tuple[int, Reserved] | None:
        """Return a number that needs no record, and its range; None if there is none."""
        line = self._lines.get((owner, timeout_ms))
        return None if line is None else line.take(now_ms)

    def reserve(self, first: int, owner: Owner, timeout_ms: int, now_ms: int) -> Reserved | None:
        """Return a range from ``first`` on that is to be stored now; None if there is enough, or a
        range is not worth it yet. Numbers taken afterwards must come after it."""
        key = owner, timeout_ms
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = _Line()
            if len(self._lines) > SEEN_MAX:
                self._lines.popitem(last=False)
            return None
        self._lines.move_to_end(key)
        if not line.wants(now_ms):
            return None
        line.is_under_way = True
        return Reserved(first, line.count, now_ms + GIVEN_MS, timeout_ms, owner)

    def stored(self, reserved: Reserved) -> None:
        """Note that its row is on disk: its numbers may be given out."""
        self._stored[reserved.first] = reserved
        line = self._lines.get((reserved.owner, reserved.timeout_ms))
        if line is None:
            return  # many others came meanwhile
        line.is_under_way = False
        if line.now is None:
            line.use(reserved)
        else:
            line.following = reserved

    def failed(self, reserved: Reserved) -> None:
        """Note that its row could not be stored."""
        if line := self._lines.get((reserved.owner, reserved.timeout_ms)):
            line.is_under_way = False

    def find(self, number: int) -> Reserved | None:
        """Return the range from before the start that has this number."""
        for each in self._found:
            if number in each.numbers:
                return each
        return None

    def over(self, needed: Collection[int], now_ms: int) -> Rows:
        """Return removals of rows: of this process's ranges with nothing left to give, except those
        ``needed`` (given by their first numbers)."""
        for line in self._lines.values():
            line.drop_ended(now_ms)
        used = {
            each.first
            for line in self._lines.values()
            for each in (line.now, line.following)
            if each is not None
        }
        gone = [
            each
            for first, each in self._stored.items()
            if first not in used and first not in needed
        ]
        return [(each.key, None) for each in gone]

    def lapsed(self, needed: Collection[int], now_ms: int) -> list[Reserved]:
        """Return the ranges from before the start whose transactions have timed out, except those
        ``needed``."""
        return [
            each
            for each in self._found
            if each.opened.until_ms <= now_ms and each.first not in needed
        ]

    def removed(self, rows: Rows) -> None:
        """Note that these rows are gone."""
        keys = {key for key, _ in rows}
        self._found = [each for each in self._found if each.key not in keys]
        self._stored = {first: each for first, each in self._stored.items() if each.key not in keys}
