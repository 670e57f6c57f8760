"""Ending: the one commit that makes all of a transaction count, and what an abort gives back.

The rule: sends and acknowledgements whose topic or subscription has gone are silently dropped, as
they would have gone with it; everything else counts, or nothing does.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from arneb_core.api.core import Core, CountedRun, Unit
from arneb_core.api.entries.entry import FLAGS_OFFSET, TIMES_OFFSET, EntryFlag, messages_in
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, TopicFenced
from arneb_core.api.process.callbacks import Done
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.packing.entries import is_delayed
from arneb_pulsar.services.transactions.held_records import HeldRecords
from arneb_pulsar.services.transactions.open_transaction import KEPT_BYTES, OpenTransaction, Sends
from arneb_pulsar.transactions.records import SENT_AT
from arneb_pulsar.transactions.states import TransactionState

RUN_ENTRIES_MAX: Final = 10_000
"""Entries of one committed run: a ledger should hold no more."""

STAMPED_PER_TURN: Final = 2_000
"""Entries made ready in one turn: some 2 ms."""

TRIES_MAX: Final = 3
"""Attempts to commit: topics may be deleted while they are being committed to."""


@dataclass(frozen=True, slots=True)
class End:
    """How a transaction ends."""

    committed: bool
    """Otherwise it is aborted."""
    at_ms: int
    until_ms: int
    """How long the outcome can be asked for."""
    row: tuple[str, bytes]
    """The outcome's row, written in the same commit."""

    @property
    def moving(self) -> TransactionState:
        """Its state until that is on disk."""
        return TransactionState.COMMITTING if self.committed else TransactionState.ABORTING

    @property
    def goal(self) -> TransactionState:
        """Its state afterwards."""
        return TransactionState.COMMITTED if self.committed else TransactionState.ABORTED


class Ending:
    """Ends transactions of one coordinator. Large ones are committed one after the other, so that
    the entries of only one are in memory."""

    def __init__(self, core: Core, held: HeldRecords, ended: Collection[int]) -> None:
        """``ended``: the ids of terminated topics."""
        self._core = core
        self._held = held
        self._ended = ended
        self._large = trio.Lock()

    def __repr__(self) -> str:
        return f"<Ending {'a large one' if self._large.locked() else 'no large one'}>"

    def terminated(self, transaction: OpenTransaction) -> Topic | None:
        """Return a terminated topic that it sent to, if there is one."""
        for sends in transaction.sends.values():
            if sends.topic.id in self._ended:
                return sends.topic
        return None

    def end_at_once(self, transaction: OpenTransaction, end: End, done: Done) -> None:
        """End a small transaction that is in memory, even if its client has left; ``done`` is
        called."""

        def attempt(tries: int) -> None:
            unit = self._small(transaction, end) if end.committed else Unit(metadata=[end.row])
            self._core.commit(unit, partial(stored, tries))

        def stored(tries: int, error: CommitFailed | None) -> None:
            if isinstance(error, TopicFenced) and tries < TRIES_MAX:
                attempt(tries + 1)  # without what has gone
            else:
                done(error)

        attempt(1)

    def _small(self, transaction: OpenTransaction, end: End) -> Unit:
        unit = self._unit(transaction, end)
        for sends in self._sends(transaction):
            self._add_run(unit, sends.topic, _all_stamped(sends.kept, end.at_ms))
        return unit

    async def commit(self, transaction: OpenTransaction, end: End) -> None:
        """Make all of it count, in one commit. If it raises :class:`.CommitFailed`, nothing has
        changed."""
        if transaction.sent_bytes <= KEPT_BYTES:
            await self._commit(transaction, end)
        else:
            async with self._large:
                await self._commit(transaction, end)

    def give_back(self, transaction: OpenTransaction) -> None:
        """Have what an aborted transaction acknowledged delivered again."""
        for acks in transaction.acks.values():
            whole = [Position(each) for each in acks.whole]
            acks.subscription.give_back(whole, acks.masks)

    async def _commit(self, transaction: OpenTransaction, end: End) -> None:
        for tries in range(1, TRIES_MAX + 1):
            unit = self._unit(transaction, end)
            for sends in self._sends(transaction):
                await self._add(unit, sends, end.at_ms, is_kept=transaction.has_kept)
            try:
                async with self._core.written_ahead(unit):
                    await self._core.committed(unit)
            except TopicFenced:
                if tries == TRIES_MAX:
                    raise
            else:
                return

    def _unit(self, transaction: OpenTransaction, end: End) -> Unit:
        """Make the unit of its acknowledgements and its outcome."""
        unit = Unit(metadata=[end.row], passes_over_gone=True)
        for acks in transaction.acks.values():
            topic = acks.topic
            if topic.subscriptions.get(acks.subscription.name) is acks.subscription:
                unit.acks.append((acks.holder, [Position(each) for each in acks.whole]))
                unit.parts.append((acks.holder, acks.masks))
        return unit

    def _sends(self, transaction: OpenTransaction) -> Iterator[Sends]:
        """Yield what it sent to topics that still exist."""
        for sends in transaction.sends.values():
            if self._core.topics.get(sends.topic.name) is sends.topic and not sends.topic.fenced:
                yield sends

    async def _add(self, unit: Unit, sends: Sends, now_ms: int, *, is_kept: bool) -> None:
        if is_kept:
            entries = _all_stamped(sends.kept, now_ms)
        else:
            entries = []
            stamp = now_ms.to_bytes(8, "big")
            async for _, record in self._held.read(sends.positions):
                entries.append(_stamped(record[SENT_AT:], stamp))
                if len(entries) % STAMPED_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
        for start in range(0, len(entries), RUN_ENTRIES_MAX):
            self._add_run(unit, sends.topic, entries[start : start + RUN_ENTRIES_MAX])
            if start:
                await trio.lowlevel.checkpoint()

    def _add_run(self, unit: Unit, topic: Topic, run: list[bytes]) -> None:
        if any(map(is_delayed, run)):
            self._core.expect_delays(topic)
        if any(each[FLAGS_OFFSET] & EntryFlag.GROUPED for each in run):
            topic.expect_groups()
        size, messages = sum(map(len, run)), sum(map(messages_in, run))
        unit.runs.append(CountedRun(topic, run, messages, size))


def _all_stamped(entries: Sequence[bytes], now_ms: int) -> list[bytes]:
    stamp = now_ms.to_bytes(8, "big")
    return [_stamped(each, stamp) for each in entries]


def _stamped(entry: bytes, stamp: bytes) -> bytes:
    """Return the entry with the time of the commit as its publish time."""
    return entry[:TIMES_OFFSET] + stamp + entry[TIMES_OFFSET + 8 :]
