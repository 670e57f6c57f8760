"""The check of the log: every ledger and every block of every topic.

The rule: blocks are compared with their keys, their neighbours and their ledger's record, and every
entry's header is read. Damage to a block is reported only as that, not as a gap or a wrong count as
well.
"""

from dataclasses import dataclass, field
from struct import error

from arneb_core.api.entries.entry import ENTRY_FORMAT, HEADER, HEADER_BYTES, Origin, read_header
from arneb_core.api.entries.position import Position, entry_of, ledger_of, position_at, render
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.checking.inventory import Inventory, LedgerCount, TopicInventory
from arneb_core.store.format.block import BlockCorrupt, BodyLost, block_references
from arneb_core.store.format.records import LedgerRecord, unpack_gap
from arneb_core.store.format.schema import Table, TopicId, parse_entry_key, parse_ledger_key
from arneb_core.store.journal.reconciliation import Gap

ORIGINS = frozenset(Origin)

PUBLISHED, DELIVER_AT = 4, 5
"""Indexes of fields in a header."""


def check_ledgers(inventory: Inventory) -> None:
    """Check the records of all ledgers, and their order."""
    for key, value in inventory.snapshot.scan(Table.LEDGERS):
        try:
            topic_id, ledger = parse_ledger_key(key)
        except error:
            inventory.add(FindingKind.LEDGER_KEY, key.hex(), f"expected 8 bytes, got {len(key)}")
            continue
        where = f"{inventory.label(topic_id)}, ledger {ledger}"
        topic = inventory.topics.get(topic_id)
        if topic is None:
            inventory.add(FindingKind.LEDGER_ORPHAN, where, "expected its topic, got none")
            continue
        try:
            record = LedgerRecord.unpack(value)
        except ValueError as problem:
            inventory.add(FindingKind.LEDGER_RECORD, where, problem)
            record = LedgerRecord(0)
        else:
            _check_offset(inventory, where, topic, record)
        _check_order(inventory, where, topic, ledger)
        topic.ledgers[ledger] = LedgerCount(record)


def _check_offset(
    inventory: Inventory, where: str, topic: TopicInventory, record: LedgerRecord
) -> None:
    if not topic.ledgers:
        return
    below = topic.ledgers[next(reversed(topic.ledgers))].record
    expected = below.messages_before + below.messages
    if below.closed_ms and record.messages_before != expected:
        detail = f"expected {expected} messages before it, got {record.messages_before}"
        inventory.add(FindingKind.LEDGER_OFFSET, where, detail)


def _check_order(inventory: Inventory, where: str, topic: TopicInventory, ledger: int) -> None:
    if not topic.ledgers:
        return
    before = next(reversed(topic.ledgers))
    if ledger != before + 1:
        inventory.add(FindingKind.LEDGER_GAP, where, f"expected ledger {before + 1} before it")
    if not topic.ledgers[before].record.closed_ms:
        detail = f"expected ledger {before} to be closed, as it is not the last"
        inventory.add(FindingKind.LEDGER_OPEN, where, detail)


def check_gaps(inventory: Inventory) -> None:
    """Report gaps, which are findings as long as their ledger exists."""
    gaps = list(inventory.snapshot.journal_gaps)
    for key, value in inventory.snapshot.scan(Table.GAPS):
        try:
            topic_id, last = parse_entry_key(key)
            gaps.append(Gap(topic_id, unpack_gap(value), last))
        except (error, ValueError) as problem:
            inventory.add(FindingKind.GAP_ROW, key.hex(), problem)
    for topic_id, first, last in gaps:
        where = f"{inventory.label(topic_id)}, entries {render(first)} to {render(last)}"
        topic = inventory.topics.get(topic_id)
        if topic is None or ledger_of(last) not in topic.ledgers:
            inventory.add(FindingKind.GAP_ROW, where, "expected their ledger, got none")
        elif not first <= last or ledger_of(first) != ledger_of(last):
            inventory.add(FindingKind.GAP_ROW, where, "expected them to lie in one ledger")
        else:
            topic.gaps[first] = last
            inventory.add(FindingKind.GAP, where, "lost")


def check_entries(inventory: Inventory) -> None:
    """Check every block, then the counts of closed ledgers."""
    walk = _Walk(inventory)
    for key, value in inventory.snapshot.scan(Table.ENTRIES):
        if inventory.findings.is_full:
            return
        try:
            topic_id, last = parse_entry_key(key)
        except error:
            inventory.add(FindingKind.BLOCK_KEY, key.hex(), f"expected 12 bytes, got {len(key)}")
            continue
        walk.block(topic_id, last, value)
    for topic_id, last, value in inventory.snapshot.journaled_blocks():
        walk.block(topic_id, last, value)
    for topic_id, topic in inventory.topics.items():
        for ledger, count in topic.ledgers.items():
            walk.pass_last_gap(topic, ledger, count)
            if (topic_id, ledger) not in walk.damaged:
                _check_counts(inventory, f"{inventory.label(topic_id)}, ledger {ledger}", count)


def _check_counts(inventory: Inventory, where: str, count: LedgerCount) -> None:
    record = count.record
    expected = (record.entries, record.messages, record.bytes_total)
    found = (count.entries, count.messages, count.bytes_total)
    if record.closed_ms and expected != found:
        detail = f"expected (entries, messages, bytes) {expected} by its record, got {found}"
        inventory.add(FindingKind.LEDGER_COUNTS, where, detail)


@dataclass(slots=True)
class _Walk:
    """The walk over the blocks, in key order."""

    inventory: Inventory
    damaged: set[tuple[TopicId, int]] = field(default_factory=set)
    """Ledgers with a reported block, whose counts say nothing."""
    behind_damage: tuple[TopicId, int] | None = None
    """The ledger of the last block if that was reported: the next one's start says nothing."""

    def block(self, topic_id: TopicId, last: Position, value: bytes) -> None:
        """Check one block: in itself, against its key, and against its ledger."""
        inventory = self.inventory
        where = f"{inventory.label(topic_id)}, block to {render(last)}"
        topic = inventory.topics.get(topic_id)
        ledger = None if topic is None else topic.ledgers.get(ledger_of(last))
        try:
            inventory.references.update(block_references(value))
            first, entries = inventory.snapshot.decode(value)
        except BodyLost:
            self._skip(topic_id, last, ledger)  # the check of bodies names the missing one
            return
        except BlockCorrupt as problem:
            inventory.references_known = False
            if not inventory.is_trimmed(topic_id, last, last):
                inventory.add(FindingKind.BLOCK_CORRUPT, where, problem)
            self._skip(topic_id, last, ledger)
            return
        if first + len(entries) - 1 != last:
            end = Position(first + len(entries) - 1)
            detail = f"expected entries up to its key, got {render(first)} to {render(end)}"
            inventory.add(FindingKind.BLOCK_PLACE, where, detail)
            self._skip(topic_id, last, ledger)
            return
        if inventory.is_trimmed(topic_id, first, last):
            return  # blocks written ahead in vain may lie in a ledger that was passed over
        if ledger is None:
            inventory.add(FindingKind.BLOCK_ORPHAN, where, "expected its ledger, got none")
            return
        self._pass_gaps(topic_id, topic, ledger, first)
        unknown = self.behind_damage == (topic_id, ledger_of(last))
        if entry_of(first) != ledger.entries and not unknown:
            expected = position_at(ledger_of(last), ledger.entries)
            detail = f"expected its first entry to be {render(expected)}, got {render(first)}"
            inventory.add(FindingKind.BLOCK_GAP, where, detail)
            self.damaged.add((topic_id, ledger_of(last)))
        self.behind_damage = None
        ledger.entries = entry_of(last) + 1
        ledger.bytes_total += sum(map(len, entries))
        ledger.messages += self._messages(topic_id, first, entries)

    def pass_last_gap(self, topic: TopicInventory, number: int, ledger: LedgerCount) -> None:
        """Count a gap at the end of a ledger."""
        position = position_at(number, ledger.entries)
        if last := topic.gaps.get(position):
            ledger.entries = entry_of(last) + 1
            ledger.messages += last - position + 1

    def _pass_gaps(
        self,
        topic_id: TopicId,
        topic: TopicInventory | None,
        ledger: LedgerCount,
        first: Position,
    ) -> None:
        """Count a gap right before ``first``: each lost entry as one message."""
        position = position_at(ledger_of(first), ledger.entries)
        last = None if topic is None else topic.gaps.get(position)
        if last is not None and last < first:
            ledger.entries = entry_of(last) + 1
            ledger.messages += last - position + 1

    def _skip(self, topic_id: TopicId, last: Position, ledger: LedgerCount | None) -> None:
        """Continue after a damaged block as if it had been whole."""
        self.behind_damage = (topic_id, ledger_of(last))
        self.damaged.add(self.behind_damage)
        if ledger is not None:
            ledger.entries = entry_of(last) + 1

    def _messages(self, topic_id: TopicId, first: Position, entries: list[bytes]) -> int:
        """Return how many messages the entries hold, and report every invalid header."""
        # Nearly always all headers are valid: four checks of columns replace one for each entry.
        if min(map(len, entries)) >= HEADER_BYTES:
            columns = tuple(zip(*map(HEADER.unpack_from, entries), strict=True))
            formats, origins, messages, reserved = (columns[index] for index in (0, 1, 3, 9))
            well = {*formats} == {ENTRY_FORMAT} and {*origins} <= ORIGINS and {*reserved} == {0}
            topic = self.inventory.topics.get(topic_id)
            if topic is not None:
                topic.stamped_ms = max(topic.stamped_ms, columns[PUBLISHED][-1])
            if any(columns[DELIVER_AT]):
                self._note_delays(topic_id, first, columns[DELIVER_AT])
            if well and 0 not in messages:
                return sum(messages)
        total = 0
        for position, entry in enumerate(entries, first):
            try:
                total += read_header(entry).messages
            except ValueError as problem:
                where = f"{self.inventory.label(topic_id)}, entry {render(Position(position))}"
                self.inventory.add(FindingKind.ENTRY_HEADER, where, problem)
                self.damaged.add((topic_id, ledger_of(first)))
        return total

    def _note_delays(self, topic_id: TopicId, first: Position, times: tuple[int, ...]) -> None:
        topic = self.inventory.topics[topic_id]
        now_ms = self.inventory.now_ms
        topic.delays.update([position for position, at in enumerate(times, first) if at])
        topic.later.update([position for position, at in enumerate(times, first) if at > now_ms])
