"""Times as Arrow columns of Spark's type, microseconds in UTC.

The rule: a time that somebody may have got wrong (a publisher's timestamp is any 64-bit
number) becomes null rather than an error: one odd message must not make a log unreadable.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last ms of the year 9999, the last that Spark shows."""

US_PER_MS: Final = 1000

TYPE: Final = pa.timestamp("us", "UTC")
_MS: Final = pa.timestamp("ms", "UTC")


def times_of_ms(times_ms: Sequence[int]) -> "pa.Array":
    """Times given in ms; 0 = not set."""
    known = [time if 0 < time <= TIME_MS_MAX else None for time in times_ms]
    return pa.array(known, _MS).cast(TYPE)


def times_of_column(numbers: "pa.Array", unit_ms: int = 1) -> "pa.Array":
    """Times given as a column of unsigned numbers, ``unit_ms`` ms each; 0 = not set."""
    extremes = pc.min_max(numbers)
    if extremes["min"].as_py() == 0 or extremes["max"].as_py() > TIME_MS_MAX // unit_ms:
        return times_of_ms([number * unit_ms for number in numbers.to_pylist()])
    # The scalar has its type given: without it, pyarrow looks for dateutil at every call.
    unit = pa.scalar(unit_ms * US_PER_MS, pa.int64())
    return pc.multiply(numbers.view(pa.int64()), unit).view(TYPE)
