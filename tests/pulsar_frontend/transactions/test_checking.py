"""What is kept of transactions is looked at: each kind of damage is found, and sound rows are
not."""

import pytest
from pyroaring import BitMap64

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position, position_at
from arneb_pulsar.transactions.checking import check_records, check_rows
from arneb_pulsar.transactions.outcomes import MANY, ONE, Many, Outcomes
from arneb_pulsar.transactions.records import Acked, Opened, pack, pack_sent
from arneb_pulsar.transactions.reservations import RESERVED, Reserved
from arneb_pulsar.transactions.states import ERA

ENTRY = EntryHeader(Origin.PULSAR, publish_time_ms=1).pack() + b"x"
SOUND = {
    ERA: bytes(3) + b"\x01",
    **dict([Outcomes({}).row(4, 9, committed=True), Outcomes({}).row(5, 9, committed=False)]),
    Reserved(9, 2, 3, 4, ("me", "")).key: Reserved(9, 2, 3, 4, ("me", "")).pack(),
    Reserved(11, 2, 3, 4, ("me", "")).key: Reserved(11, 2, 3, 4, ("me", "")).pack(),
    f"{MANY}1": Many(1, 9, BitMap64([1, 2]), BitMap64([3])).pack(),
}
OPENED = pack(1, Opened(1, 2, ("me", "")), 1)


def test_sound_rows_are_no_findings() -> None:
    assert list(check_rows(SOUND)) == []


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        (ERA, b"", "expected bytes: 4, got 0"),
        (f"{ONE}6", b"\x01", "unpack requires"),
        (f"{ONE}6", b"\x02" + bytes(8), "expected 0 or 1"),
        (f"{ONE}six", SOUND[f"{ONE}4"], "invalid literal"),
        (f"{ONE}3", SOUND[f"{ONE}4"], "expected the outcome of row"),
        (f"{ONE}2", SOUND[f"{ONE}5"], "expected the outcome of row"),
        (f"{MANY}1", b"", "expected more than 12 bytes, got 0"),
        (f"{MANY}1", SOUND[f"{MANY}1"][:-3], ""),
        (f"{RESERVED}13", b"", "expected a range of transactions"),
        (f"{RESERVED}12", SOUND[f"{RESERVED}9"], "expected none of the numbers of row"),
        (f"{MANY}2", Many(2, 9, BitMap64([8]), BitMap64([8])).pack(), "got two of 8"),
    ],
)
def test_a_damaged_row_is_found(key: str, value: bytes, found: str) -> None:
    ((where, what),) = check_rows(SOUND | {key: value})
    assert where == f"row {key!r}"
    assert found in what


def test_sound_records_are_no_findings() -> None:
    """The first may be gone: what has ended is acknowledged piece by piece."""
    acked = pack(1, Acked(3, "s", 1, [position_at(1, 1)]), 1)
    part = pack(1, Acked(3, "s", 1, [], {position_at(1, 2): (1, 2)}), 1)
    other = pack(2, Opened(1, 2, ("me", "")), 1)
    log = [
        *pack_sent(9, 3, [ENTRY], 1),
        OPENED,
        OPENED,
        *pack_sent(1, 3, [ENTRY] * 2, 1),
        acked,
        other,
    ]
    assert list(check_records(enumerated([*log, part]))) == []


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (b"", "expected a record of a transaction"),
        (pack(1, Opened(1, 3, ("me", "")), 1), "expected as it was opened"),
        (OPENED[:-4], ""),
        (pack_sent(1, 3, [b"short"], 1)[0], "expected an entry of at least"),
        (pack_sent(1, 3, [bytes(60)], 1)[0], "expected entry format"),
        (pack(1, Acked(3, "s", 1), 1), "expected something acknowledged"),
        (pack(1, Acked(3, "s", 1, [position_at(1, 1)]), 1)[:-2], ""),
    ],
)
def test_a_damaged_record_is_found(record: bytes, found: str) -> None:
    ((where, what),) = check_records(enumerated([OPENED, record]))
    assert where == "record 1:1"
    assert found in what


def enumerated(records: list[bytes]) -> list[tuple[Position, bytes]]:
    return [(position_at(1, index), each) for index, each in enumerate(records)]
