"""Sorted runs: the keys of a bucket that is to be sealed, in sorted parts, and their bytes.

The rule: runs of one part of a ledger differ in their times and in the low bytes of their places.
These, one behind the other, are the eight bytes of a double, and positive doubles sort as their
bytes do; so keys become floats, which the interpreter sorts in half the time that large integers
take, and become records again without anything being made for each. Whatever else there is, is
sorted as keys.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from sys import byteorder
from typing import Final, NamedTuple, cast

from pyroaring import BitMap64

from arneb_core.api.due_key import STAMP_BYTES, DueKey, TimedRun
from arneb_core.store.format.delayed_rows import RECORD_BYTES, records_of

LOW_BYTES: Final = 2
"""Of a place: a ledger of 50,000 entries has mostly one value of the others."""
LOW_BITS: Final = 8 * LOW_BYTES
TIME_BYTES: Final = STAMP_BYTES - LOW_BYTES
"""Of a time in ms, whose first two bytes are zero for some thousand years."""

EXPONENT_MAX: Final = 0x7E
"""The first byte of a double that is a number and not negative; with zero it may be one of those
that some processors take for zero."""


def records_of_keys(keys: Sequence[float]) -> bytes:
    """The records of keys that are sorted as such."""
    return records_of(cast(Sequence[DueKey], keys))


class SortedRuns(NamedTuple):
    """Keys in sorted parts, none of which is empty, in some form that sorts as keys do."""

    parts: Sequence[Sequence[float]]
    records: Callable[[Sequence[float]], bytes]
    """What the records of some of them are, one behind the other."""
    members: BitMap64 | None
    """Where all of their entries stand, if that is known."""


@dataclass(frozen=True, slots=True)
class FloatForm:
    """What keys have in common that are sorted as floats."""

    high: int
    """The places without their low bytes."""

    def floats(self, runs: Sequence[TimedRun]) -> list[float]:
        """The keys of ``runs``, each of which has this form, as they come."""
        stamps = b"".join([run.stamps for run in runs])
        all_lows, parts = _all_low_bytes(), []
        for run in runs:
            start = LOW_BYTES * (run.first & (1 << LOW_BITS) - 1)
            parts.append(all_lows[start : start + LOW_BYTES * run.entries])
        lows, doubles = b"".join(parts), bytearray(len(stamps))
        for at in range(TIME_BYTES):
            doubles[at::STAMP_BYTES] = stamps[at + LOW_BYTES :: STAMP_BYTES]
        for at in range(LOW_BYTES):
            doubles[TIME_BYTES + at :: STAMP_BYTES] = lows[at::LOW_BYTES]
        numbers = array("d", bytes(doubles))
        if byteorder == "little":
            numbers.byteswap()
        return numbers.tolist()

    def records(self, floats: Sequence[float]) -> bytes:
        """Undo :meth:`floats`: the records of these."""
        numbers = array("d", floats)
        if byteorder == "little":
            numbers.byteswap()
        doubles = numbers.tobytes()
        place = (self.high << LOW_BITS).to_bytes(RECORD_BYTES - STAMP_BYTES, "big")
        found = bytearray((bytes(STAMP_BYTES) + place) * len(numbers))
        for at in range(TIME_BYTES):
            found[at + LOW_BYTES :: RECORD_BYTES] = doubles[at::STAMP_BYTES]
        for at in range(TIME_BYTES, STAMP_BYTES):
            found[STAMP_BYTES + at :: RECORD_BYTES] = doubles[at::STAMP_BYTES]
        return bytes(found)


def float_form_of(run: TimedRun) -> FloatForm | None:
    """The form of the keys of ``run``; None if they are no floats of one form."""
    stamps, first = run.stamps, run.stamps[LOW_BYTES]
    if (
        0 < first <= EXPONENT_MAX
        and run.first >> LOW_BITS == run.last >> LOW_BITS
        and not any(stamps[0::STAMP_BYTES])
        and not any(stamps[1::STAMP_BYTES])
        and stamps[LOW_BYTES::STAMP_BYTES].count(first) == run.entries
    ):
        return FloatForm(run.first >> LOW_BITS)
    return None


@cache
def _all_low_bytes() -> bytes:
    """The low bytes of places that follow each other: 128 KiB, if anything is ever delayed."""
    lows = array("H", range(1 << LOW_BITS))
    if byteorder == "little":
        lows.byteswap()
    return lows.tobytes()
