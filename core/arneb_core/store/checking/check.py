"""The check: walks everything in a store and verifies that it fits together.

The rule: it believes nothing that it has not read. It reads one snapshot, so it may run beside a
live broker, and it never writes. It verifies what the engine relies on, so every test of the
project that has a store ends with it.

Order: the journal, META and the catalog here, then ledgers, gaps and blocks (:mod:`.checking.log`),
then the bodies that blocks share (:mod:`.checking.bodies`), then the cursors against all
(:mod:`.checking.cursors`), then the delayed indexes (:mod:`.checking.delayed`).
"""

import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import lmdb

from arneb_core.api.entries.position import entry_of
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.store.checking.bodies import check_bodies
from arneb_core.store.checking.cursors import check_cursors
from arneb_core.store.checking.delayed import check_delayed
from arneb_core.store.checking.findings import Finding, FindingKind, Findings
from arneb_core.store.checking.inventory import Inventory, TopicInventory
from arneb_core.store.checking.log import check_entries, check_gaps, check_ledgers
from arneb_core.store.data_file.store_file import damaged_tables
from arneb_core.store.format.records import (
    JournalState,
    SubscriptionRecord,
    TopicRecord,
    TrimmedRecord,
    unpack_number,
    unpack_trims,
)
from arneb_core.store.format.schema import (
    CATALOG_PREFIXES,
    FORMAT_VERSION,
    META_AHEAD,
    META_CLEAN,
    META_FORMAT,
    META_JOURNAL,
    META_NEXT_TOPIC_ID,
    META_REPLICA,
    META_TRIMS,
    SUBSCRIPTION_PREFIX,
    TOPIC_PREFIX,
    TRIMMED_PREFIX,
    Table,
    parse_subscription_key,
    parse_trimmed_key,
)
from arneb_core.store.journal.damaged_journal import kept_reports
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment, page_faults


def check(source: str | os.PathLike[str] | Snapshot) -> list[Finding]:
    """Return everything wrong in a data directory, or in a snapshot of one; empty: clean.

    A directory must not be open in this process. Raises :class:`.StoreUnusable` when it cannot be
    opened at all, even if only because of its format.
    """
    if isinstance(source, Snapshot):
        findings = Findings()
        deque(_walk(Inventory(source, wall_clock_ms(), findings), set()), maxlen=0)
        return list(findings)
    findings = Findings()
    deque(check_directory(source, findings), maxlen=0)
    return list(findings)


def check_directory(path: str | os.PathLike[str], findings: Findings) -> Iterator[str]:
    """Check a directory step by step, yielding the name of each step before it.

    No table after a damaged one is walked, since each is compared with those before it.
    """
    yield "the pages"
    faults = page_faults(path)
    for fault in faults:
        findings.add(FindingKind.PAGE, f"page {fault.page}", f"{fault.tree}, {fault.detail}")
    damaged = damaged_tables(faults)
    if Table.META in damaged:
        return
    yield "the list of tables"
    with (
        open_snapshot_environment(path, looked_at=True) as environment,
        environment.snapshot(damaged_too=True) as snapshot,
    ):
        for wrong in snapshot.faults:
            kind = FindingKind.JOURNAL if wrong.is_certain else FindingKind.JOURNAL_CUT_OFF
            findings.add(kind, JOURNAL_NAME, wrong)
        for name, report in kept_reports(Path(path)):
            findings.add(FindingKind.JOURNAL_KEPT, f"{name} (remove it once read)", report)
        yield from _walk(Inventory(snapshot, wall_clock_ms(), findings), damaged)


def _walk(inventory: Inventory, damaged: Collection[Table]) -> Iterator[str]:
    for step, table in STEPS:
        if table in damaged:
            return
        yield f"table {table.name}"
        try:
            step(inventory)
        except (lmdb.Error, ValueError) as error:
            # LMDB met a malformed page, or a long key without its value.
            inventory.add(FindingKind.UNREADABLE, f"table {table.name}", error)


def _check_meta(inventory: Inventory) -> None:
    for key, value in inventory.snapshot.scan(Table.META):
        try:
            if key == META_FORMAT:
                _expect(unpack_number(value), FORMAT_VERSION)
            elif key in (META_TRIMS, META_AHEAD):
                inventory.trims += unpack_trims(value)
            elif key == META_CLEAN:
                _expect(value, b"")
            elif key == META_JOURNAL:
                JournalState.unpack(value)
            elif key == META_REPLICA:
                json.loads(value)
            elif key == META_NEXT_TOPIC_ID:
                unpack_number(value)
            else:
                raise ValueError("expected no such key")
        except ValueError as error:
            inventory.add(FindingKind.META, _text(key), error)
    if inventory.snapshot.get(Table.META, META_FORMAT) is None:
        inventory.add(FindingKind.META, "format", "expected a format version, got none")


def _check_catalog(inventory: Inventory) -> None:
    _check_topics(inventory)
    _check_subscriptions(inventory)
    _check_trimmed(inventory)
    for key, _ in inventory.snapshot.scan(Table.CATALOG):
        if not key.startswith(CATALOG_PREFIXES):
            inventory.add(FindingKind.CATALOG_KEY, _text(key), "expected a known kind of key")


def _check_topics(inventory: Inventory) -> None:
    ids_end = inventory.snapshot.get(Table.META, META_NEXT_TOPIC_ID)
    for key, value in inventory.snapshot.scan(Table.CATALOG, TOPIC_PREFIX):
        try:
            name = key[len(TOPIC_PREFIX) :].decode()
            record = TopicRecord.unpack(value)
        except ValueError as error:
            inventory.add(FindingKind.CATALOG_RECORD, _text(key), error)
            continue
        known = inventory.topics.get(record.id)
        if known is not None:
            detail = f"expected an id of its own, got {record.id} of {known.name!r}"
            inventory.add(FindingKind.TOPIC_ID, f"topic {name!r}", detail)
            continue
        if not 1 <= record.id < (1 if ids_end is None else int.from_bytes(ids_end, "big")):
            detail = f"expected an id below next_topic_id, got {record.id}"
            inventory.add(FindingKind.TOPIC_ID, f"topic {name!r}", detail)
        inventory.topics[record.id] = TopicInventory(name, delayed=record.delayed)


def _check_trimmed(inventory: Inventory) -> None:
    for key, value in inventory.snapshot.scan(Table.CATALOG, TRIMMED_PREFIX):
        try:
            topic_id, record = parse_trimmed_key(key), TrimmedRecord.unpack(value)
            if not 0 < record.end <= record.floor or entry_of(record.floor):
                raise ValueError(f"expected an end below the ledgers that are left, got {record}")
        except ValueError as error:
            inventory.add(FindingKind.CATALOG_RECORD, _text(key), error)
            continue
        if topic_id not in inventory.topics:
            detail = f"expected topic {topic_id}, got none"
            inventory.add(FindingKind.CATALOG_RECORD, _text(key), detail)


def _check_subscriptions(inventory: Inventory) -> None:
    for key, value in inventory.snapshot.scan(Table.CATALOG, SUBSCRIPTION_PREFIX):
        try:
            topic_id, name = parse_subscription_key(key)
            record = SubscriptionRecord.unpack(value)
        except ValueError as error:
            inventory.add(FindingKind.CATALOG_RECORD, _text(key), error)
            continue
        where = f"{inventory.label(topic_id)}, subscription {name!r}"
        topic = inventory.topics.get(topic_id)
        if topic is None:
            inventory.add(FindingKind.SUBSCRIPTION_ORPHAN, where, "expected its topic, got none")
        elif record.id < 1 or record.id in topic.subscriptions:
            detail = f"expected an id of its own, got {record.id}"
            inventory.add(FindingKind.SUBSCRIPTION_ID, where, detail)
        else:
            topic.subscriptions[record.id] = name


STEPS: Final[tuple[tuple[Callable[[Inventory], None], Table], ...]] = (
    (_check_meta, Table.META),
    (_check_catalog, Table.CATALOG),
    (check_ledgers, Table.LEDGERS),
    (check_gaps, Table.GAPS),
    (check_entries, Table.ENTRIES),
    (check_bodies, Table.BODIES),
    (check_cursors, Table.CURSORS),
    (check_delayed, Table.DELAYED),
)
"""The order matters: each step compares with what those before it found."""


def _expect(value: object, expected: object) -> None:
    if value != expected:
        raise ValueError(f"expected {expected!r}, got {value!r}")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")
