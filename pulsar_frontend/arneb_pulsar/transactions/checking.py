"""Checking: whether what is stored of transactions can be read and is consistent.

The rule: each problem found would stop a broker's start, or make it answer differently than before.
Rows are not compared with records: the newest records may be in the journal, whose rows are not in
the store yet.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from arneb_core.api.entries.entry import read_header
from arneb_core.api.entries.position import Position, render
from arneb_pulsar.transactions.outcomes import MANY, ONE, ONE_VALUE, Many
from arneb_pulsar.transactions.records import Acked, Opened, Sent, unpack
from arneb_pulsar.transactions.reservations import RESERVED, Reserved
from arneb_pulsar.transactions.states import ERA, ERA_BYTES

Problem = tuple[str, str]
"""Where the problem is, and what it is."""


def check_rows(rows: Mapping[str, bytes]) -> Iterator[Problem]:
    """Check the era, the outcomes and the reserved ranges, given by their keys."""
    singles: dict[int, bool] = {}
    many: list[Many] = []
    ranges: list[Reserved] = []
    for key, value in rows.items():
        try:
            if key == ERA:
                _expect(len(value), ERA_BYTES, "bytes")
            elif key.startswith(ONE):
                committed, _ = ONE_VALUE.unpack(value)
                _expect(committed in (0, 1), True, "0 or 1")
                singles[int(key.removeprefix(ONE))] = bool(committed)
            elif key.startswith(MANY):
                many.append(Many.unpack(int(key.removeprefix(MANY)), value))
            elif key.startswith(RESERVED):
                ranges.append(Reserved.unpack(key, value))
        except (ValueError, struct.error) as error:
            yield f"row {key!r}", str(error)
    for each in many:
        where = f"row '{MANY}{each.number}'"
        if both := each.committed & each.aborted:
            yield where, f"expected one outcome each, got two of {both.min()}"
    ranges.sort(key=lambda each: each.first)
    for before, behind in pairwise(ranges):
        if before.first + before.count > behind.first:
            yield f"row {behind.key!r}", f"expected none of the numbers of row {before.key!r}"
    for number, committed in singles.items():
        for each in many:
            if number in (each.aborted if committed else each.committed):
                yield f"row '{ONE}{number}'", f"expected the outcome of row '{MANY}{each.number}'"


def check_records(records: Iterable[tuple[Position, bytes]]) -> Iterator[Problem]:
    """Check the records of transactions that have not ended, in order."""
    opened: dict[int, Opened] = {}
    for position, entry in records:
        try:
            number, record = unpack(entry)
            match record:
                case Opened():
                    # There may be several: each of the first commits brings one along.
                    _expect(record, opened.setdefault(number, record), "as it was opened")
                case Sent():
                    read_header(record.entry)
                case Acked():
                    _expect(bool(record.whole or record.parts), True, "something acknowledged")
        except ValueError as error:
            yield f"record {render(position)}", str(error)


def _expect(got: object, wanted: object, what: str) -> None:
    if got != wanted:
        raise ValueError(f"expected {what}: {wanted}, got {got}")
