"""Ending: the one commit that makes all of a transaction count, and what an abort gives back.

The rule: what cannot count any more, because its topic or subscription has gone, goes without a
word, as what was published to it would have; everything else counts, or nothing does.
"""

from collections.abc import Sequence
from typing import Final

import trio

from arneb_core.api.core import Core, CountedRun, Unit
from arneb_core.api.entry import FLAGS_OFFSET, TIMES_OFFSET, EntryFlag, messages_in
from arneb_core.api.errors import TopicFenced
from arneb_core.api.position import Position
from arneb_core.api.topics import Topic
from arneb_pulsar.packing.entries import is_delayed
from arneb_pulsar.services.held_records import HeldRecords
from arneb_pulsar.services.open_transaction import KEPT_BYTES, OpenTransaction, Sends
from arneb_pulsar.transactions.records import SENT_AT

RUN_ENTRIES_MAX: Final = 10_000
"""Of a run that is committed: a ledger should hold no more."""

STAMPED_PER_TURN: Final = 2_000
"""Entries that are made ready in one turn: some 2 ms."""

TRIES_MAX: Final = 3
"""Topics may be deleted while they are being committed to, so often."""


class Ending:
    """Ends transactions of one coordinator. Large ones have their turn one after the other, so that
    the entries of one are in memory at a time."""

    def __init__(self, core: Core, held: HeldRecords) -> None:
        self._core = core
        self._held = held
        self._large = trio.Lock()

    def __repr__(self) -> str:
        return f"<Ending {'a large one' if self._large.locked() else 'no large one'}>"

    async def commit(
        self, transaction: OpenTransaction, rows: Sequence[tuple[str, bytes]], now_ms: int
    ) -> None:
        """Have all of it count, and ``rows`` stored, in one commit. Raises
        :class:`.CommitFailed`: then nothing has changed."""
        if transaction.sent_bytes <= KEPT_BYTES:
            await self._commit(transaction, rows, now_ms)
        else:
            async with self._large:
                await self._commit(transaction, rows, now_ms)

    def give_back(self, transaction: OpenTransaction) -> None:
        """It was aborted: what it acknowledged is delivered again."""
        for acks in transaction.acks.values():
            whole = [Position(each) for each in acks.whole]
            acks.subscription.give_back(whole, acks.masks)

    async def _commit(
        self, transaction: OpenTransaction, rows: Sequence[tuple[str, bytes]], now_ms: int
    ) -> None:
        for tries in range(1, TRIES_MAX + 1):
            unit = Unit(metadata=list(rows), passes_over_gone=True)
            for sends in transaction.sends.values():
                if self._is_there(sends.topic):
                    await self._add(unit, sends, now_ms, is_kept=transaction.has_kept)
            for acks in transaction.acks.values():
                topic = acks.topic
                if topic.subscriptions.get(acks.subscription.name) is acks.subscription:
                    unit.acks.append((acks.holder, [Position(each) for each in acks.whole]))
                    unit.parts.append((acks.holder, acks.masks))
            try:
                async with self._core.written_ahead(unit):
                    await self._core.committed(unit)
            except TopicFenced:
                if tries == TRIES_MAX:
                    raise
            else:
                return

    async def _add(self, unit: Unit, sends: Sends, now_ms: int, *, is_kept: bool) -> None:
        stamp = now_ms.to_bytes(8, "big")
        entries: list[bytes] = []
        if is_kept:
            entries = [_stamped(each, stamp) for each in sends.kept]
        else:
            async for _, record in self._held.read(sends.places):
                entries.append(_stamped(record[SENT_AT:], stamp))
                if len(entries) % STAMPED_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
        topic = sends.topic
        for start in range(0, len(entries), RUN_ENTRIES_MAX):
            run = entries[start : start + RUN_ENTRIES_MAX]
            if any(map(is_delayed, run)):
                self._core.expect_delays(topic)
            if any(each[FLAGS_OFFSET] & EntryFlag.GROUPED for each in run):
                topic.expect_groups()
            size, messages = sum(map(len, run)), sum(map(messages_in, run))
            unit.runs.append(CountedRun(topic, run, messages, size))
            if start:
                await trio.lowlevel.checkpoint()

    def _is_there(self, topic: Topic) -> bool:
        return self._core.topics.get(topic.name) is topic and not topic.fenced


def _stamped(entry: bytes, stamp: bytes) -> bytes:
    """The entry as published when it is committed."""
    return entry[:TIMES_OFFSET] + stamp + entry[TIMES_OFFSET + 8 :]
