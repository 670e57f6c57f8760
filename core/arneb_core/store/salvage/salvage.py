"""The salvage: the contents of a new store, made of whatever is intact in a damaged one.

The rule: nothing is trusted that cannot be verified, the damaged directory is only read, and what
is missing is reported. In doubt messages are delivered twice rather than left out: a cursor of
which only an old row is left, or none, goes back.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import error
from typing import Final

from arneb_core.api.entries.entry import HEADER_BYTES, messages_in
from arneb_core.api.entries.position import (
    BEFORE_ALL,
    FIRST_LEDGER,
    LedgerId,
    Position,
    ledger_of,
    position_at,
    render,
)
from arneb_core.store.format.block import (
    block_references,
    encode_block,
)
from arneb_core.store.format.delayed_rows import pack_through
from arneb_core.store.format.records import (
    JournalState,
    LedgerRecord,
    SubscriptionRecord,
    TopicRecord,
    pack_gap,
    pack_number,
    unpack_number,
)
from arneb_core.store.format.schema import (
    FRONTEND_PREFIX,
    META_JOURNAL,
    META_NEXT_TOPIC_ID,
    SUBSCRIPTION_PREFIX,
    TOPIC_PREFIX,
    BodyKey,
    CursorKind,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    entry_key,
    gap_key,
    ledger_key,
    parse_cursor_key,
    parse_ledger_key,
    parse_subscription_key,
    subscription_key,
    through_key,
    topic_key,
)
from arneb_core.store.journal.file import read_journal
from arneb_core.store.journal.overlay import rows_of
from arneb_core.store.journal.reconciliation import in_turn
from arneb_core.store.salvage.salvaged_blocks import SalvagedBlocks
from arneb_core.store.salvage.salvaged_cursor import SalvagedCursor
from arneb_core.store.salvage.salvaged_log import FoundBlock, SalvagedLog, put_together
from arneb_core.store.salvage.scan import Remains

NAMELESS: Final = "persistent://public/default/salvaged-topic-%d"
"""Name for a topic whose name is lost."""

UNOWNED: Final = "persistent://public/default/salvaged-messages"
"""Name of the topic for messages whose topic is unknown."""

KEPT_FOR_EVER: Final = -1
CHUNK_BITS: Final = 16

Row = tuple[Table, bytes, bytes]


class Salvage:
    """The contents of the new store. Computed in one go; then only read."""

    def __init__(self, remains: Remains, directory: Path, now_ms: int | None = None) -> None:
        self._remains = remains
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self.missing: list[str] = [str(fault) for fault in remains.faults]
        """What is lost, or may be; one line each."""
        self.topics: dict[TopicId, tuple[str, TopicRecord]] = {}
        self._subscriptions: dict[
            TopicId, dict[SubscriptionId, tuple[str, SubscriptionRecord]]
        ] = {}
        self._frontend: dict[bytes, bytes] = {}
        self.logs: dict[TopicId, SalvagedLog] = {}
        self.references: Counter[BodyKey] = Counter()
        if remains.meta is None:
            self.missing.append("both meta pages: nothing says what was current and what was old")
        self.stored = SalvagedBlocks(remains)
        self._read_catalog()
        self._cursors = self._read_cursors()
        blocks = self.stored.find()
        self._take_journal(directory, blocks)
        self._name_nameless(blocks)
        self._make_logs(blocks)
        self._place_unowned()
        self._tell_losses()

    def __repr__(self) -> str:
        return f"<Salvage of {len(self.topics)} topics, {len(self.missing)} missing>"

    # The catalog

    def _read_catalog(self) -> None:
        ids: set[TopicId] = set()
        subscriptions: list[tuple[TopicId, str, SubscriptionRecord]] = []
        for key, value in self._remains.rows(Table.CATALOG):
            try:
                if key.startswith(TOPIC_PREFIX):
                    name, record = key[len(TOPIC_PREFIX) :].decode(), TopicRecord.unpack(value)
                    if record.id >= 1 and record.id not in ids:
                        ids.add(record.id)
                        self.topics[record.id] = name, record
                elif key.startswith(SUBSCRIPTION_PREFIX):
                    topic_id, name = parse_subscription_key(key)
                    subscriptions.append((topic_id, name, SubscriptionRecord.unpack(value)))
                elif key.startswith(FRONTEND_PREFIX):
                    self._frontend.setdefault(key, value)
            except ValueError as problem:
                shown = key.decode("utf-8", "backslashreplace")
                self.missing.append(f"row {shown!r} of the catalog: {problem}")
        for topic_id, name, subscription in subscriptions:
            known = self._subscriptions.setdefault(topic_id, {})
            if subscription.id >= 1 and name not in {each for each, _ in known.values()}:
                known.setdefault(subscription.id, (name, subscription))

    def _name_nameless(self, blocks: dict[TopicId, list[FoundBlock]]) -> None:
        """Name topics that have messages, but no row in the catalog."""
        whose = {*self.stored.live.values()}
        if Table.CATALOG in self._remains.damaged:
            whose |= {*blocks, *self._subscriptions}
        for topic_id in sorted(whose - self.topics.keys()):
            name = NAMELESS % topic_id
            self.topics[topic_id] = name, _kept_for_ever(topic_id)
            self.missing.append(f"the name of topic {topic_id}, which is called {name!r} now")

    # The log

    def _take_journal(self, directory: Path, blocks: dict[TopicId, list[FoundBlock]]) -> None:
        """Take from the journal the runs and rows that LMDB did not have yet."""
        row = next((v for k, v in self._remains.rows(Table.META) if k == META_JOURNAL), None)
        if row is None:
            if Table.META in self._remains.damaged:
                self.missing.append(
                    "what the journal had: the row that tells how to read it is lost"
                )
            return
        try:
            reading = read_journal(directory, JournalState.unpack(row))
        except (OSError, ValueError) as problem:
            self.missing.append(f"what the journal had: {problem}")
            return
        self.missing += [f"journal: {fault}" for fault in reading.faults]
        # With an old row, old records would overwrite what came after them.
        remains = self._remains
        is_current = remains.meta is not None and Table.META not in remains.damaged
        if not is_current and any(rows_of(each.changes) for each in reading.records):
            self.missing.append(
                "rows of cursors and metadata that the journal had, or some of them"
            )
        number = JournalState.unpack(row).number
        for record, follows_loss in in_turn(reading.records, number):
            for topic_id, first, entries in record.changes.blocks:
                value = bytes(encode_block(first, entries))
                blocks.setdefault(topic_id, []).append(self.stored.note(first, entries, value))
            for table, key, late in rows_of(record.changes) if is_current else ():
                if table is Table.CURSORS and not follows_loss:
                    self._take_cursor_row(key, late)
                elif table is Table.CATALOG and late is not None:
                    self._frontend[key] = late
                elif table is Table.CATALOG:
                    self._frontend.pop(key, None)

    def _take_cursor_row(self, key: bytes, value: bytes | None) -> None:
        """Take a row from the journal."""
        topic_id, number, kind, low = parse_cursor_key(key)
        if rows := self._cursors.get((topic_id, number)):
            if value is None:
                rows.drop(kind, low)
            else:
                rows.take(kind, low, value)

    def _make_logs(self, blocks: dict[TopicId, list[FoundBlock]]) -> None:
        records: dict[TopicId, dict[LedgerId, LedgerRecord]] = {}
        for key, value in self._remains.rows(Table.LEDGERS):
            with suppress(ValueError, error):
                topic_id, ledger = parse_ledger_key(key)
                records.setdefault(topic_id, {}).setdefault(ledger, LedgerRecord.unpack(value))
        for topic_id in self.topics:
            ledgers = records.get(topic_id, {})
            is_nameless = self.topics[topic_id][0] == NAMELESS % topic_id
            any_ledger = is_nameless or Table.LEDGERS in self._remains.damaged
            known = [
                rows.last_known for (owner, _), rows in self._cursors.items() if owner == topic_id
            ]
            known += [
                end
                for end in self.stored.ends.get(topic_id, ())
                if any_ledger or ledger_of(end) in ledgers
            ]
            self.logs[topic_id] = put_together(
                ledgers,
                blocks.get(topic_id, []),
                up_to=max(known, default=BEFORE_ALL),
                any_ledger=any_ledger,
                now_ms=self._now_ms,
            )
            self._tell_crowded(topic_id, blocks.get(topic_id, []))

    def _tell_crowded(self, topic_id: TopicId, blocks: list[FoundBlock]) -> None:
        """Report blocks whose positions are taken: a damaged row may name a topic or position that
        is not the block's."""
        placed = {block.value for block in self.logs[topic_id].blocks}
        for block in blocks:
            if block.value in self.stored.live and block.value not in placed:
                self.missing.append(
                    f"topic {self.topics[topic_id][0]!r}: a block of entries {render(block.first)} "
                    f"to {render(block.last)}, which are there already or in no ledger"
                )

    def _place_unowned(self) -> None:
        """Put blocks whose row is lost where blocks are missing, if only one gap fits; else into a
        separate topic."""
        left: list[tuple[Position, list[bytes]]] = []
        found = [block for place in self._remains.unowned for block in self.stored.at(place)]
        # They could also belong to a topic of which nothing is known.
        certain = self._remains.knows_free_pages and not self._remains.damaged & {
            Table.CATALOG,
            Table.LEDGERS,
        }
        for block in sorted(found):
            homes = [log for log in self.logs.values() if log.misses(block.first, block.last)]
            if len(homes) == 1 and certain:
                homes[0].fill(block)
            elif homes or self._remains.knows_free_pages:
                left.append(
                    (
                        block.first,
                        self.stored.entries(block),
                    )
                )
        if not left:
            return
        topic_id = TopicId(max(self.topics, default=0) + 1)
        self.topics[topic_id] = UNOWNED, _kept_for_ever(topic_id)
        found, end = [], 0
        for _, entries in sorted(left, key=lambda run: run[0]):
            first = position_at(FIRST_LEDGER, end)
            found.append(self.stored.note(first, entries, bytes(encode_block(first, entries))))
            end += len(entries)
        self.logs[topic_id] = put_together(
            {}, found, up_to=BEFORE_ALL, any_ledger=True, now_ms=self._now_ms
        )
        self.missing.append(f"of which topic {end} entries are; {UNOWNED!r} has them now")

    def _tell_losses(self) -> None:
        for topic_id, log in self.logs.items():
            name = self.topics[topic_id][0]
            for first, last in log.gaps:
                self.missing.append(f"topic {name!r}: entries {render(first)} to {render(last)}")
            for (owner, number), rows in self._cursors.items():
                known = self._subscriptions.get(topic_id, {}).get(number)
                if owner == topic_id and known is not None and not rows.is_live:
                    self.missing.append(
                        f"topic {name!r}, subscription {known[0]!r}: where it stood; it begins "
                        f"behind {render(log.floored(rows.place.mark_delete))}"
                    )

    # The cursors

    def _read_cursors(self) -> dict[tuple[TopicId, SubscriptionId], SalvagedCursor]:
        found = {
            (topic_id, number): SalvagedCursor()
            for topic_id, each in self._subscriptions.items()
            for number in each
        }
        remains = self._remains
        for key, place in remains.live[Table.CURSORS].items():
            with suppress(ValueError, error):
                topic_id, number, kind, low = parse_cursor_key(key)
                if rows := found.get((topic_id, number)):
                    rows.take(kind, low, remains.read(place))
        for key, places in remains.strays[Table.CURSORS].items():
            with suppress(ValueError, error):
                topic_id, number, kind, low = parse_cursor_key(key)
                rows = found.get((topic_id, number))
                if rows is None or key in remains.live[Table.CURSORS]:
                    continue
                if len(places) == 1 and remains.is_current(places[0]):
                    rows.take(kind, low, remains.read(places[0]))
                elif kind is CursorKind.PLACE:
                    # Without meta pages everything left is found, the current row too.
                    goes_back = not remains.knows_free_pages and remains.meta is not None
                    rows.take_old([remains.read(each) for each in places], goes_back=goes_back)
        return found

    # What is written

    @property
    def has_rows(self) -> bool:
        """Whether there is anything besides topics."""
        return bool(self._frontend)

    def rows(self) -> Iterator[Row]:
        """Yield everything but blocks and bodies."""
        next_id = max([*self.topics, *self._ids_given_out()], default=0) + 1
        yield Table.META, META_NEXT_TOPIC_ID, pack_number(next_id)
        for key, value in self._frontend.items():
            yield Table.CATALOG, key, value
        for topic_id, (name, record) in self.topics.items():
            yield Table.CATALOG, topic_key(name), record.pack()
            if record.delayed:
                # The index is rebuilt from the log.
                yield Table.DELAYED, through_key(topic_id), pack_through(BEFORE_ALL)
            log = self.logs[topic_id]
            for ledger, counted in log.ledgers.items():
                yield Table.LEDGERS, ledger_key(topic_id, ledger), counted.pack()
            for first, last in log.gaps:
                yield Table.GAPS, gap_key(topic_id, last), pack_gap(first)
            for number, (subscription, kept) in self._subscriptions.get(topic_id, {}).items():
                yield Table.CATALOG, subscription_key(topic_id, subscription), kept.pack()
                prefix = cursor_prefix(topic_id, number)
                for suffix, value in self._cursors[topic_id, number].rows(log, self._messages_at):
                    yield Table.CURSORS, prefix + suffix, value

    def blocks(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of ENTRIES."""
        for topic_id, log in self.logs.items():
            for block in log.blocks:
                value = self.stored.value(block)
                self.references.update(block_references(value))
                yield entry_key(topic_id, block.last), value

    def _ids_given_out(self) -> Iterator[int]:
        for key, value in self._remains.rows(Table.META):
            if key == META_NEXT_TOPIC_ID:
                with suppress(ValueError):
                    yield unpack_number(value) - 1

    def _messages_at(self, log: SalvagedLog, place: Position) -> int:
        """Return how many messages the entry has; 0 when it is lost."""
        block = log.block_at(place)
        if block is None:
            return 0
        entry = self.stored.entries(block)[place - block.first]
        return messages_in(entry) if len(entry) >= HEADER_BYTES else 1


def _kept_for_ever(topic_id: TopicId) -> TopicRecord:
    return TopicRecord(topic_id, retention_ms=KEPT_FOR_EVER, retention_bytes=KEPT_FOR_EVER)
