"""Sorted runs: the keys of a bucket to be sealed, in sorted parts, and their records.

The rule: keys of one part of a ledger differ only in their times and in the low bytes of their
positions. Put together, those are the eight bytes of a double, and positive doubles sort as their
bytes do; so keys become floats, which the interpreter sorts in half the time of large integers, and
become records again without a step for each. All other keys are sorted as keys.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from sys import byteorder
from typing import Final, NamedTuple, cast

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import STAMP_BYTES, DueKey, TimedRun
from arneb_core.store.format.delayed_rows import RECORD_BYTES, records_of

LOW_BYTES: Final = 2
"""Low bytes of a position: in a ledger of 50,000 entries the others mostly have one value."""
LOW_BITS: Final = 8 * LOW_BYTES
TIME_BYTES: Final = STAMP_BYTES - LOW_BYTES
"""Low bytes of a time in ms; the first two are zero for some thousand years."""

EXPONENT_MAX: Final = 0x7E
"""The highest first byte of a double that is surely finite and not negative. The lowest is 1: with
0 it may be subnormal, which some processors treat as zero."""


def records_of_keys(keys: Sequence[float]) -> bytes:
    """Return the records of keys that are sorted as keys."""
    return records_of(cast(Sequence[DueKey], keys))


class SortedRuns(NamedTuple):
    """Keys in sorted parts, none of them empty, in a form that sorts as keys do."""

    parts: Sequence[Sequence[float]]
    records: Callable[[Sequence[float]], bytes]
    """Returns the records of some of them, one after the other."""
    members: BitMap64 | None
    """The positions of all their entries, if they are known."""


@dataclass(frozen=True, slots=True)
class FloatForm:
    """What keys that are sorted as floats have in common."""

    high: int
    """The positions without their low bytes."""

    def floats(self, runs: Sequence[TimedRun]) -> list[float]:
        """Return the keys of ``runs``, all of this form, in the order of the runs."""
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
        """Undo :meth:`floats`: return the records of these."""
        numbers = array("d", floats)
        if byteorder == "little":
            numbers.byteswap()
        doubles = numbers.tobytes()
        position = (self.high << LOW_BITS).to_bytes(RECORD_BYTES - STAMP_BYTES, "big")
        found = bytearray((bytes(STAMP_BYTES) + position) * len(numbers))
        for at in range(TIME_BYTES):
            found[at + LOW_BYTES :: RECORD_BYTES] = doubles[at::STAMP_BYTES]
        for at in range(TIME_BYTES, STAMP_BYTES):
            found[STAMP_BYTES + at :: RECORD_BYTES] = doubles[at::STAMP_BYTES]
        return bytes(found)


def float_form_of(run: TimedRun) -> FloatForm | None:
    """Return the form of the keys of ``run``; None if they cannot be floats of one form."""
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
    """Return the low bytes of consecutive positions: 128 KiB, made once anything is delayed."""
    lows = array("H", range(1 << LOW_BITS))
    if byteorder == "little":
        lows.byteswap()
    return lows.tobytes()
