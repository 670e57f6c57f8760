"""The check: silent on a sound store, and every seeded damage gets its own name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroaring import BitMap

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.position import LedgerId, Position, position_at
from arneb_core.api.errors import FormatMismatch, StoreUnusable
from arneb_core.store.checking import findings
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import Finding, FindingKind
from arneb_core.store.environment import Store
from arneb_core.store.format.block import encode_block
from arneb_core.store.format.bodies import pack_body
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.delayed_rows import pack_through
from arneb_core.store.format.records import (
    CursorRecord,
    LedgerRecord,
    SubscriptionRecord,
    TopicRecord,
    TrimmedRecord,
    pack_gap,
    pack_holes,
    pack_mask,
    pack_number,
    pack_trims,
)
from arneb_core.store.format.schema import (
    META_CLEAN,
    META_FORMAT,
    META_NEXT_TOPIC_ID,
    META_TRIMS,
    PLACE_SUFFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    entry_key,
    gap_key,
    holes_suffix,
    ledger_key,
    mask_suffix,
    subscription_key,
    through_key,
    topic_key,
    trimmed_key,
)
from arneb_core.testing.store_kit import StoreModel, entry

T = TopicId(1)
NOBODY = TopicId(9)
CURSOR = cursor_prefix(T, SubscriptionId(1))
FAN = TopicId(3)
BODY = entry_key(FAN, position_at(1, 1))
BIG = entry(bytes(5_000))
BATCH = position_at(2, 3)
"""An entry of five messages."""


@pytest.fixture
def sound(tmp_path: Path) -> Iterator[Store]:
    """A store in which everything occurs: topic 1 has ledgers 2 (closed), 3 (closed), 4 (open)
    of two blocks with three entries each; its cursor stands at 2:1, with 2:4 and 3:0 to 3:2
    acknowledged and half of the batch at 2:3. Topics 3 and 4 share the body of 1:1."""
    with Store.open(tmp_path / "data") as store:
        model = StoreModel()
        for name in ("orders", "empty"):
            changes = Changes()
            model.create_topic(changes, name)
            model.subscribe(changes, name, "amqp")
            store.commit(changes)
        for ledger in range(4):
            for start in (0, 3):
                changes = Changes()
                run = [entry(b"%d" % index, 5 if index == 3 else 1) for index in range(3)]
                run[0] = entry(b"", 5) if start else run[0]
                model.append(changes, "orders", run)
                store.commit(changes)
            changes = Changes()
            if ledger < 3:
                model.close_ledger(changes, "orders")
            if ledger == 1:
                model.drop_ledger(changes, "orders")
            store.commit(changes)
        model.put(changes := Changes(), b"frontend/" + bytes(800), b"long")
        changes.puts += [
            (Table.META, META_CLEAN, b""),
            (Table.CURSORS, CURSOR + PLACE_SUFFIX, position((2, 1), (3, 3))),
            (Table.CURSORS, CURSOR + holes_suffix(position_at(2, 0) >> 16), holes(4)),
            (Table.CURSORS, CURSOR + holes_suffix(position_at(3, 0) >> 16), holes(0, 1, 2)),
            (Table.CURSORS, CURSOR + mask_suffix(BATCH), pack_mask(0b10101)),
        ]
        store.commit(changes)
        for name in ("fan 3", "fan 4"):
            model.create_topic(changes := Changes(), name)
            store.commit(changes)
        changes = Changes(shared=[BIG])
        for name in ("fan 3", "fan 4"):
            model.append(changes, name, [entry(b"alone"), BIG])
        store.commit(changes)
        yield store


def position(mark_delete: tuple[int, int], read: tuple[int, int]) -> bytes:
    return CursorRecord(position_at(*mark_delete), position_at(*read)).pack()


def holes(*lows: int) -> bytes:
    return pack_holes(BitMap(lows))


def findings_in(store: Store) -> list[Finding]:
    with store.snapshot() as snapshot:
        return check(snapshot)


def test_a_sound_store_has_no_findings(sound: Store) -> None:
    assert findings_in(sound) == []
    path = sound.path
    sound.close()
    assert check(path) == []
    assert check(str(path)) == []


def put(table: Table, key: bytes, value: bytes) -> Changes:
    return Changes(puts=[(table, key, value)])


def drop(table: Table, key: bytes) -> Changes:
    return Changes(deletes=[(table, key)])


def block(first: tuple[int, int], *bodies: bytes) -> bytes:
    return bytes(encode_block(position_at(*first), bodies))


def move(table: Table, old: bytes, new: bytes, value: bytes) -> Changes:
    return Changes(puts=[(table, new, value)], deletes=[(table, old)])


FIRST = entry_key(T, position_at(2, 2))
RUN = (entry(b"0"), entry(b"1"), entry(b"2"))
RUN_AT = (2, 0)

Kind = FindingKind
DAMAGE: dict[str, tuple[Changes, FindingKind]] = {
    "unknown meta key": (put(Table.META, b"colour", b"blue"), Kind.META),
    "format gone": (drop(Table.META, META_FORMAT), Kind.META),
    "another format": (put(Table.META, META_FORMAT, pack_number(7)), Kind.META),
    "short next topic id": (put(Table.META, META_NEXT_TOPIC_ID, b"\0\0\5"), Kind.META),
    "clean mark with a value": (put(Table.META, META_CLEAN, b"?"), Kind.META),
    "half a trim": (put(Table.META, META_TRIMS, pack_trims([(T, BATCH, BATCH)])[1:]), Kind.META),
    "short gap": (put(Table.GAPS, gap_key(T, BATCH), b"\0"), Kind.GAP_ROW),
    "short gap key": (put(Table.GAPS, b"gap", pack_gap(BATCH)), Kind.GAP_ROW),
    "gap in no topic": (put(Table.GAPS, gap_key(TopicId(9), BATCH), pack_gap(BATCH)), Kind.GAP_ROW),
    "next topic id too low": (put(Table.META, META_NEXT_TOPIC_ID, pack_number(2)), Kind.TOPIC_ID),
    "next topic id gone": (drop(Table.META, META_NEXT_TOPIC_ID), Kind.TOPIC_ID),
    "two topics of one id": (
        put(Table.CATALOG, topic_key("twin"), TopicRecord(T).pack()),
        Kind.TOPIC_ID,
    ),
    "topic 0": (put(Table.CATALOG, topic_key("x"), TopicRecord(TopicId(0)).pack()), Kind.TOPIC_ID),
    "unknown catalog key": (put(Table.CATALOG, b"queue/x", b""), Kind.CATALOG_KEY),
    "topic that is no JSON": (put(Table.CATALOG, topic_key("x"), b"{"), Kind.CATALOG_RECORD),
    "topic name that is no UTF-8": (
        put(Table.CATALOG, b"topic/\xff", TopicRecord(TopicId(2)).pack()),
        Kind.CATALOG_RECORD,
    ),
    "subscription that is no JSON": (
        put(Table.CATALOG, subscription_key(T, "x"), b"[]"),
        Kind.CATALOG_RECORD,
    ),
    "subscription key without a topic": (
        put(Table.CATALOG, b"subscription/x", SubscriptionRecord(SubscriptionId(2)).pack()),
        Kind.CATALOG_RECORD,
    ),
    "subscription of no topic": (
        put(
            Table.CATALOG,
            subscription_key(NOBODY, "x"),
            SubscriptionRecord(SubscriptionId(1)).pack(),
        ),
        Kind.SUBSCRIPTION_ORPHAN,
    ),
    "two subscriptions of one id": (
        put(Table.CATALOG, subscription_key(T, "x"), SubscriptionRecord(SubscriptionId(1)).pack()),
        Kind.SUBSCRIPTION_ID,
    ),
    "subscription 0": (
        put(Table.CATALOG, subscription_key(T, "x"), SubscriptionRecord(SubscriptionId(0)).pack()),
        Kind.SUBSCRIPTION_ID,
    ),
    "end of what was trimmed that is no JSON": (
        put(Table.CATALOG, trimmed_key(T), b"{"),
        Kind.CATALOG_RECORD,
    ),
    "end of what was trimmed above the first ledger": (
        put(
            Table.CATALOG,
            trimmed_key(T),
            TrimmedRecord(position_at(2, 1), position_at(2, 0)).pack(),
        ),
        Kind.CATALOG_RECORD,
    ),
    "end of what was trimmed inside a ledger": (
        put(
            Table.CATALOG,
            trimmed_key(T),
            TrimmedRecord(position_at(1, 1), position_at(2, 1)).pack(),
        ),
        Kind.CATALOG_RECORD,
    ),
    "end of what was trimmed of no topic": (
        put(
            Table.CATALOG,
            trimmed_key(NOBODY),
            TrimmedRecord(position_at(1, 1), position_at(2, 0)).pack(),
        ),
        Kind.CATALOG_RECORD,
    ),
    "end of what was trimmed without a topic": (
        put(
            Table.CATALOG, b"trimmed/x", TrimmedRecord(position_at(1, 1), position_at(2, 0)).pack()
        ),
        Kind.CATALOG_RECORD,
    ),
    "short ledger key": (put(Table.LEDGERS, b"\0\0\0\1", b""), Kind.LEDGER_KEY),
    "short ledger record": (
        put(Table.LEDGERS, ledger_key(T, LedgerId(4)), b"\0"),
        Kind.LEDGER_RECORD,
    ),
    "ledger of no topic": (
        put(Table.LEDGERS, ledger_key(NOBODY, LedgerId(1)), LedgerRecord(1).pack()),
        Kind.LEDGER_ORPHAN,
    ),
    "ledger skipped": (
        Changes(
            puts=[
                (Table.LEDGERS, ledger_key(TopicId(2), LedgerId(1)), LedgerRecord(1, 1).pack()),
                (Table.LEDGERS, ledger_key(TopicId(2), LedgerId(3)), LedgerRecord(1).pack()),
            ]
        ),
        Kind.LEDGER_GAP,
    ),
    "open ledger in the middle": (
        put(
            Table.LEDGERS,
            ledger_key(T, LedgerId(3)),
            LedgerRecord(1, messages_before=20).pack(),
        ),
        Kind.LEDGER_OPEN,
    ),
    "wrong number of entries": (
        put(Table.LEDGERS, ledger_key(T, LedgerId(2)), LedgerRecord(1, 2, 7, 10, 245, 10).pack()),
        Kind.LEDGER_COUNTS,
    ),
    "wrong number of messages": (
        put(Table.LEDGERS, ledger_key(T, LedgerId(2)), LedgerRecord(1, 2, 6, 9, 245, 11).pack()),
        Kind.LEDGER_COUNTS,
    ),
    "wrong number of messages before": (
        put(Table.LEDGERS, ledger_key(T, LedgerId(4)), LedgerRecord(1, messages_before=31).pack()),
        Kind.LEDGER_OFFSET,
    ),
    "last block of a closed ledger gone": (
        drop(Table.ENTRIES, entry_key(T, position_at(3, 5))),
        Kind.LEDGER_COUNTS,
    ),
    "short block key": (put(Table.ENTRIES, FIRST[:11], block(RUN_AT, *RUN)), Kind.BLOCK_KEY),
    "flipped byte": (
        put(Table.ENTRIES, FIRST, block(RUN_AT, *RUN)[:-1] + b"\0"),
        Kind.BLOCK_CORRUPT,
    ),
    "truncated block": (put(Table.ENTRIES, FIRST, block(RUN_AT, *RUN)[:-1]), Kind.BLOCK_CORRUPT),
    "empty block": (put(Table.ENTRIES, FIRST, b""), Kind.BLOCK_CORRUPT),
    "block under a higher key": (
        move(Table.ENTRIES, FIRST, entry_key(T, position_at(2, 3)), block(RUN_AT, *RUN)),
        Kind.BLOCK_PLACE,
    ),
    "block with an entry too few": (
        put(Table.ENTRIES, FIRST, block(RUN_AT, *RUN[:2])),
        Kind.BLOCK_PLACE,
    ),
    "middle block gone": (drop(Table.ENTRIES, FIRST), Kind.BLOCK_GAP),
    "block that overlaps": (
        put(Table.ENTRIES, entry_key(T, position_at(4, 6)), block((4, 5), RUN[0], RUN[1])),
        Kind.BLOCK_GAP,
    ),
    "block across ledgers": (
        put(Table.ENTRIES, entry_key(T, position_at(4, 6)), block((4, 7), RUN[0])),
        Kind.BLOCK_PLACE,
    ),
    "block of no ledger": (
        put(Table.ENTRIES, entry_key(T, position_at(5, 0)), block((5, 0), RUN[0])),
        Kind.BLOCK_ORPHAN,
    ),
    "block of no topic": (
        put(Table.ENTRIES, entry_key(NOBODY, position_at(1, 0)), block((1, 0), RUN[0])),
        Kind.BLOCK_ORPHAN,
    ),
    "entry without a header": (
        put(Table.ENTRIES, entry_key(T, position_at(4, 6)), block((4, 6), b"x" * 39)),
        Kind.ENTRY_HEADER,
    ),
    "entry of another format": (
        put(Table.ENTRIES, entry_key(T, position_at(4, 6)), block((4, 6), b"\2" + RUN[0][1:])),
        Kind.ENTRY_HEADER,
    ),
    "entry of an unknown origin": (
        put(Table.ENTRIES, entry_key(T, position_at(4, 6)), block((4, 6), b"\1\7" + RUN[0][2:])),
        Kind.ENTRY_HEADER,
    ),
    "entry without messages": (
        put(
            Table.ENTRIES,
            entry_key(T, position_at(4, 6)),
            block((4, 6), RUN[0][:4] + bytes(4) + RUN[0][8:]),
        ),
        Kind.ENTRY_HEADER,
    ),
    "entry with a reserved field": (
        put(
            Table.ENTRIES,
            entry_key(T, position_at(4, 6)),
            block((4, 6), RUN[0][: HEADER_BYTES - 1] + b"\1"),
        ),
        Kind.ENTRY_HEADER,
    ),
    "short cursor key": (put(Table.CURSORS, CURSOR, b""), Kind.CURSOR_KEY),
    "cursor key of an unknown kind": (put(Table.CURSORS, CURSOR + b"\7", b""), Kind.CURSOR_KEY),
    "short cursor record": (
        put(Table.CURSORS, CURSOR + PLACE_SUFFIX, bytes(15)),
        Kind.CURSOR_RECORD,
    ),
    "cursor of no topic": (
        put(
            Table.CURSORS,
            cursor_prefix(NOBODY, SubscriptionId(1)) + PLACE_SUFFIX,
            position((1, -1), (1, 0)),
        ),
        Kind.CURSOR_ORPHAN,
    ),
    "cursor of no subscription": (
        put(Table.CURSORS, cursor_prefix(T, SubscriptionId(2)) + holes_suffix(9), holes(1)),
        Kind.CURSOR_ORPHAN,
    ),
    "cursor gone": (
        drop(Table.CURSORS, cursor_prefix(TopicId(2), SubscriptionId(1)) + PLACE_SUFFIX),
        Kind.CURSOR_MISSING,
    ),
    "mark-delete behind the log": (
        Changes(
            puts=[(Table.CURSORS, CURSOR + PLACE_SUFFIX, position((4, 6), (4, 7)))],
            prefixes=[(Table.CURSORS, CURSOR + b"\1"), (Table.CURSORS, CURSOR + b"\2")],
        ),
        Kind.CURSOR_PLACE,
    ),
    "mark-delete between ledgers": (
        Changes(
            puts=[(Table.CURSORS, CURSOR + PLACE_SUFFIX, position((3, 6), (4, 0)))],
            prefixes=[(Table.CURSORS, CURSOR + b"\1"), (Table.CURSORS, CURSOR + b"\2")],
        ),
        Kind.CURSOR_PLACE,
    ),
    "read position behind the log": (
        put(Table.CURSORS, CURSOR + PLACE_SUFFIX, position((2, 1), (4, 8))),
        Kind.CURSOR_PLACE,
    ),
    "read position before mark-delete": (
        put(Table.CURSORS, CURSOR + PLACE_SUFFIX, position((2, 1), (2, 1))),
        Kind.CURSOR_PLACE,
    ),
    "acks that are no bitmap": (
        put(Table.CURSORS, CURSOR + holes_suffix(position_at(2, 0) >> 16), b"rubbish"),
        Kind.HOLES_CORRUPT,
    ),
    "acks that are empty": (
        put(Table.CURSORS, CURSOR + holes_suffix(position_at(2, 0) >> 16), pack_holes(BitMap())),
        Kind.HOLES_CORRUPT,
    ),
    "ack below mark-delete": (
        put(Table.CURSORS, CURSOR + holes_suffix(position_at(2, 0) >> 16), holes(1, 4)),
        Kind.HOLES_PLACE,
    ),
    "ack between ledgers": (
        put(Table.CURSORS, CURSOR + holes_suffix(position_at(3, 0) >> 16), holes(0, 6)),
        Kind.HOLES_PLACE,
    ),
    "ack chunk behind the log": (
        put(Table.CURSORS, CURSOR + holes_suffix(position_at(7, 0) >> 16), holes(0)),
        Kind.HOLES_PLACE,
    ),
    "mask without messages": (
        put(Table.CURSORS, CURSOR + mask_suffix(BATCH), b"\0"),
        Kind.MASK_CORRUPT,
    ),
    "mask below mark-delete": (
        put(Table.CURSORS, CURSOR + mask_suffix(position_at(2, 0)), b"\1"),
        Kind.MASK_PLACE,
    ),
    "mask behind the log": (
        put(Table.CURSORS, CURSOR + mask_suffix(position_at(4, 6)), b"\1"),
        Kind.MASK_PLACE,
    ),
    "mask of more messages than there are": (
        put(Table.CURSORS, CURSOR + mask_suffix(BATCH), pack_mask(0b100001)),
        Kind.MASK_BITS,
    ),
    "mask of a fully acked batch": (
        put(Table.CURSORS, CURSOR + mask_suffix(position_at(3, 1)), b"\1"),
        Kind.MASK_ACKED,
    ),
    "short body key": (put(Table.BODIES, BODY[:11], b""), Kind.BODY_KEY),
    "flipped byte in a body": (
        put(Table.BODIES, BODY, pack_body(BIG)[:-1] + b"?"),
        Kind.BODY_CORRUPT,
    ),
    "truncated body": (put(Table.BODIES, BODY, pack_body(BIG)[:-1]), Kind.BODY_CORRUPT),
    "empty body": (put(Table.BODIES, BODY, b""), Kind.BODY_CORRUPT),
    "body gone": (drop(Table.BODIES, BODY), Kind.BODY_MISSING),
    "body of nobody": (
        put(Table.BODIES, entry_key(FAN, position_at(1, 0)), pack_body(BIG)),
        Kind.BODY_ORPHAN,
    ),
    "too few references": (put(Table.REFERENCES, BODY, pack_number(1)), Kind.BODY_COUNT),
    "too many references": (put(Table.REFERENCES, BODY, pack_number(3)), Kind.BODY_COUNT),
    "references not counted": (drop(Table.REFERENCES, BODY), Kind.BODY_COUNT),
    "no number of references": (put(Table.REFERENCES, BODY, b"2"), Kind.BODY_COUNT),
    "count without a body": (
        put(Table.REFERENCES, entry_key(FAN, position_at(1, 0)), pack_number(1)),
        Kind.BODY_COUNT,
    ),
    "delayed row of no topic": (
        put(Table.DELAYED, through_key(TopicId(7)), pack_through(0)),
        Kind.DELAYED_ORPHAN,
    ),
    "delayed row of no kind": (put(Table.DELAYED, b"\0\0\0\1due", b""), Kind.DELAYED_KEY),
    "delayed index of a topic without": (
        put(Table.DELAYED, through_key(T), pack_through(0)),
        Kind.DELAYED_THROUGH,
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_damage_has_its_own_name(sound: Store, damage: str) -> None:
    changes, expected = DAMAGE[damage]
    sound.commit(changes)
    found = findings_in(sound)
    assert {finding.kind for finding in found} == {expected}, "\n".join(map(str, found))
    for finding in found:
        assert "\n" not in str(finding)
        assert str(finding).startswith(f"{expected.value}: ")


def test_a_table_that_cannot_be_read_is_a_finding(
    sound: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long key whose value does not begin with it."""
    monkeypatch.setattr("arneb_core.store.commit.transaction.wrap", lambda key, value: value)
    sound.commit(put(Table.CATALOG, b"frontend/" + bytes(600), b""))
    kinds = {finding.kind for finding in findings_in(sound)}
    assert Kind.UNREADABLE in kinds


def test_every_kind_of_finding_is_tested() -> None:
    elsewhere = {Kind.DELAYED_ROW, Kind.DELAYED_PLACE, Kind.DELAYED_MISSING}  # test_delayed.py
    elsewhere.add(Kind.PAGE)  # test_pages.py
    elsewhere.add(Kind.FRONTEND)  # tests/broker/store/test_check.py
    elsewhere |= {Kind.JOURNAL, Kind.JOURNAL_CUT_OFF, Kind.JOURNAL_KEPT}  # test_journal_damage.py
    elsewhere |= {Kind.GAP}
    tested = {kind for _, kind in DAMAGE.values()} | {Kind.UNREADABLE} | elsewhere
    assert tested == set(FindingKind)


def test_a_finding_says_where_and_what(sound: Store) -> None:
    sound.commit(DAMAGE["middle block gone"][0])
    where = "topic 1 'orders', block to 2:5"
    detail = "expected its first entry to be 2:0, got 2:3"
    assert [str(finding) for finding in findings_in(sound)] == [
        f"entries-not-dense: {where}: {detail}"
    ]


def test_what_is_being_trimmed_is_no_finding(sound: Store) -> None:
    """Ledger 2 is dropped, and a restart came before its blocks were deleted."""
    last = position_at(2, 5)
    changes = Changes(
        puts=[
            (Table.META, META_TRIMS, pack_trims([(T, position_at(2, 0), last)])),
            (Table.CURSORS, CURSOR + PLACE_SUFFIX, CursorRecord(last, position_at(3, 4)).pack()),
        ],
        prefixes=[(Table.CURSORS, CURSOR + b"\2")],
        deletes=[
            (Table.LEDGERS, ledger_key(T, LedgerId(2))),
            (Table.CURSORS, CURSOR + holes_suffix(position_at(2, 0) >> 16)),
        ],
    )
    sound.commit(changes)
    assert findings_in(sound) == []
    sound.commit(put(Table.ENTRIES, FIRST, b"rubbish"))
    assert findings_in(sound) == []
    sound.commit(drop(Table.META, META_TRIMS))
    assert {finding.kind for finding in findings_in(sound)} == {
        Kind.BLOCK_ORPHAN,
        Kind.BLOCK_CORRUPT,
    }


@pytest.mark.parametrize(
    ("mark_delete", "read"),
    [((1, 3), (2, 0)), ((1, -1), (1, 0)), ((2, -1), (2, 0)), ((4, 5), (4, 6)), ((5, -1), (5, 0))],
)
def test_a_cursor_may_stand_at_every_bound_of_the_log(
    sound: Store, mark_delete: tuple[int, int], read: tuple[int, int]
) -> None:
    """In a dropped ledger, before the first entry, at the last one, before the next ledger."""
    prefixes = [(Table.CURSORS, CURSOR + kind) for kind in (b"\1", b"\2")]
    row = (Table.CURSORS, CURSOR + PLACE_SUFFIX, position(mark_delete, read))
    sound.commit(Changes(prefixes=prefixes, puts=[row]))
    assert findings_in(sound) == []


def test_a_ruined_store_gives_a_bounded_list(sound: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "FINDINGS_MAX", 10)
    rows = [(Table.ENTRIES, entry_key(NOBODY, Position(n)), b"") for n in range(100)]
    sound.commit(Changes(puts=list(rows)))
    assert len(findings_in(sound)) == 10


def test_damage_below_lmdb_is_found_too(sound: Store) -> None:
    """A byte flipped in the file itself, in a page of entries."""
    with sound.snapshot() as snapshot:
        value = snapshot.get(Table.ENTRIES, FIRST)
        assert value is not None
    path = sound.path
    sound.close()
    file = path / "data.mdb"
    content = file.read_bytes()
    assert value in content
    file.write_bytes(content.replace(value, value[:-1] + b"?"))
    assert {finding.kind for finding in check(path)} == {Kind.BLOCK_CORRUPT}


def test_what_is_no_store_is_refused_and_not_checked(sound: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        check(tmp_path)
    sound.commit(put(Table.META, META_FORMAT, pack_number(99)))
    path = sound.path
    sound.close()
    with pytest.raises(FormatMismatch, match="format 99"):
        check(path)
