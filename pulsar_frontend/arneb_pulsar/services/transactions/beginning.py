"""Beginning: how transactions begin, with numbers that are never reused.

The rule: a client that was told that a transaction is open finds it after a crash. Either it has a
record, or its number is in a range whose row names the owner (``reservations``); then its
record is written with the first thing done in it, or when it has been idle for a while.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import trio

from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.transactions.held_records import HeldRecords
from arneb_pulsar.services.transactions.open_transaction import HeldBytes, OpenTransaction
from arneb_pulsar.transactions.outcomes import KEPT_MS
from arneb_pulsar.transactions.records import Opened, pack
from arneb_pulsar.transactions.reservations import COUNT_MAX, RESERVED, Reservations, Reserved, Rows
from arneb_pulsar.transactions.states import (
    COORDINATOR,
    ERA,
    ERA_BITS,
    ERA_BYTES,
    TransactionId,
    TransactionState,
)

IDLE_S: Final = 1.0
"""A transaction idle for this long, or up to twice that, is recorded."""

RECORDED_TOGETHER: Final = 500
"""Transactions recorded in one turn: two or three milliseconds."""

ERA_NUMBERS: Final = (1 << ERA_BITS) - 1
ERA_LEFT_MIN: Final = COUNT_MAX + 1
"""Numbers that one beginning transaction may need."""

Begun = Callable[[CommitFailed | None, TransactionId], None]
"""Called when a transaction will outlive a crash, or failed to begin."""

logger = logging.getLogger(__name__)


class Beginning:
    """Begins the transactions of one coordinator.

    Invariant: each of ``opened`` has a record, or is in ``_unrecorded`` with a range that has a
    row.
    """

    def __init__(
        self,
        core: Core,
        held: HeldRecords,
        clock: Clock,
        opened: dict[int, OpenTransaction],
        memory: HeldBytes,
        some: Callable[[], None],
    ) -> None:
        """``opened``: the open transactions by their numbers; new ones are added there. ``some`` is
        called when the first is."""
        self._core = core
        self._held = held
        self._clock = clock
        self._open = opened
        self._memory = memory
        self._some = some
        self._reservations = Reservations(core.metadata(RESERVED))
        self._unrecorded: dict[int, tuple[OpenTransaction, Reserved]] = {}
        self._idle: Mapping[int, object] = {}
        """Transactions not recorded at the last look."""
        self._looked_s = 0.0
        self.under_way = 0
        """Transactions on their way to disk."""
        self.latest = 0
        """The highest number given out or reserved since the start; 0 = not ready."""
        self._starting = trio.Lock()

    def __repr__(self) -> str:
        return f"<Beginning behind {self.latest}, {self._reservations!r}>"

    async def prepare(self) -> None:
        """Make ready for the first transaction. Raises :class:`.CoreError`."""
        await self._held.open()
        async with self._starting:
            if not self.latest:
                kept = self._core.metadata(ERA).get(ERA, b"")
                era = int.from_bytes(kept, "big") + 1
                await self._core.committed(Unit(metadata=[(ERA, era.to_bytes(ERA_BYTES, "big"))]))
                self.latest = era << ERA_BITS

    def begin(self, timeout_ms: int, caller: Caller, begun: Begun) -> None:
        """Begin a transaction; ``begun`` is called, perhaps before this returns."""
        now_ms, owner = self._clock.wall_ms(), (caller.role, caller.original)
        opened = Opened(now_ms, timeout_ms, owner)
        taken = self._reservations.take(owner, timeout_ms, now_ms)
        if taken is None:
            self.latest += 1
            number = self.latest
        else:
            number, reserved = taken
        transaction = OpenTransaction(TransactionId(COORDINATOR, number), opened, self._memory)
        wanted = self._reservations.reserve(self.latest + 1, owner, timeout_ms, now_ms)
        if wanted is not None:
            self.latest += wanted.count
        if self.latest & ERA_NUMBERS > ERA_NUMBERS - ERA_LEFT_MIN:
            self.latest = 0  # the next transaction waits for a new era
        if taken is None:
            self._record_first(transaction, begun, wanted)
            return
        self._add_unrecorded(transaction, reserved)
        if wanted is not None:
            self._reserve(wanted)
        begun(None, transaction.id)

    def adopted(self, number: int, caller: Caller | None) -> OpenTransaction | None:
        """Return an open transaction from before the start of which only its range is known. Only
        for its owner, or for ``caller`` None, who may see all, is it added to the open ones. If its
        time is up it is open until that is stored, as others are."""
        reserved = self._reservations.find(number)
        if reserved is None:
            return None
        name = TransactionId(COORDINATOR, number)
        found = OpenTransaction(name, reserved.opened, self._memory)
        if caller is None or found.opened.owner == (caller.role, caller.original):
            self._add_unrecorded(found, reserved)
        return found

    def opened(self, found: OpenTransaction, first: Position, opening: list[bytes]) -> None:
        """Note that ``opening``, from :func:`opening_of`, is on disk; it may be empty."""
        if opening:
            found.records.add(first)
            found.is_recorded = True
            self.recorded(found.id.least_bits)

    def recorded(self, number: int) -> None:
        """Note that it has a record now, or has ended and needs none."""
        self._unrecorded.pop(number, None)

    async def record_idle(self) -> None:
        """Record transactions that have been idle for a while. Often not a checkpoint."""
        now_s = self._clock.now()
        if now_s - self._looked_s < IDLE_S:
            return
        self._looked_s = now_s
        idle, self._idle = self._idle, dict.fromkeys(self._unrecorded)
        found = [each for number, (each, _) in self._unrecorded.items() if number in idle]
        for start in range(0, len(found), RECORDED_TOGETHER):
            if start:
                await trio.lowlevel.checkpoint()
            some = [each for each in found[start : start + RECORDED_TOGETHER] if _is_idle(each)]
            if some:
                self._record(some)

    @property
    def has_earlier(self) -> bool:
        """Whether there are ranges from before the start."""
        return self._reservations.has_earlier

    def has_lapsed(self, now_ms: int) -> bool:
        """Whether transactions known only by such a range have timed out."""
        return self.has_earlier and bool(self._reservations.lapsed(self._needed, now_ms))

    def over(self, now_ms: int) -> tuple[Rows, dict[int, int]]:
        """Return rows to remove, and the transactions known only by these that have timed out: how
        long that is to be known instead, by their numbers. Call :meth:`removed` with the rows
        afterwards."""
        needed = self._needed
        lapsed = self._reservations.lapsed(needed, now_ms)
        rows = self._reservations.over(needed, now_ms) + [(each.key, None) for each in lapsed]
        return rows, {
            number: each.opened.until_ms + KEPT_MS
            for each in lapsed
            for number in each.numbers
            if number not in self._open
        }

    def removed(self, rows: Rows) -> None:
        """Note that these are gone from the disk."""
        self._reservations.removed(rows)

    # Inside

    @property
    def _needed(self) -> set[int]:
        return {reserved.first for _, reserved in self._unrecorded.values()}

    def _add(self, transaction: OpenTransaction) -> None:
        self._open[transaction.id.least_bits] = transaction
        if len(self._open) == 1:
            self._some()

    def _add_unrecorded(self, transaction: OpenTransaction, reserved: Reserved) -> None:
        transaction.is_recorded = False
        self._unrecorded[transaction.id.least_bits] = transaction, reserved
        self._add(transaction)

    def _record_first(
        self, transaction: OpenTransaction, begun: Begun, wanted: Reserved | None
    ) -> None:
        """Begin it with a record, and store the range ``wanted`` with that."""
        self.under_way += 1
        rows = self._rows(wanted) if wanted is not None else []

        def stored(error: CommitFailed | None, first: Position) -> None:
            self.under_way -= 1
            if wanted is not None:
                self._reserved(wanted, rows, error)
            if error is None:
                transaction.records.add(first)
                self._add(transaction)
            begun(error, transaction.id)

        opened = transaction.opened
        record = pack(transaction.id.least_bits, opened, opened.at_ms)
        self._held.append([record], stored, rows)

    def _reserve(self, wanted: Reserved) -> None:
        rows = self._rows(wanted)
        self._core.commit(Unit(metadata=rows), lambda error: self._reserved(wanted, rows, error))

    def _rows(self, wanted: Reserved) -> Rows:
        """Return the row of ``wanted``, and the removal of rows that are over."""
        over = self._reservations.over(self._needed, self._clock.wall_ms())
        return [(wanted.key, wanted.pack()), *over]

    def _reserved(self, wanted: Reserved, rows: Rows, error: CommitFailed | None) -> None:
        if error is None:
            self._reservations.removed(rows[1:])
            self._reservations.stored(wanted)
        else:
            self._reservations.failed(wanted)

    def _record(self, found: list[OpenTransaction]) -> None:
        """Record these; ending one waits for that."""
        now_ms = self._clock.wall_ms()
        for each in found:
            each.begin_one()

        def stored(error: CommitFailed | None, first: Position) -> None:
            for at, each in enumerate(found):
                if error is None:
                    each.records.add(first + at)
                    each.is_recorded = True
                    self.recorded(each.id.least_bits)
                each.end_one()
            if error is not None:
                logger.warning("open transactions cannot be recorded yet: %s", error)

        self._held.append([pack(each.id.least_bits, each.opened, now_ms) for each in found], stored)


def _is_idle(found: OpenTransaction) -> bool:
    """Whether it waits to be recorded and nothing under way does that already: however slow the
    disk, each is recorded once."""
    is_open = found.state is TransactionState.OPEN
    return is_open and not (found.is_recorded or found.under_way)


def opening_of(found: OpenTransaction) -> list[bytes]:
    """Return the record that must precede others of the transaction. Until one is known to be
    stored, each commit brings it along, since any of those under way may fail."""
    if found.is_recorded:
        return []
    return [pack(found.id.least_bits, found.opened, found.opened.at_ms)]
