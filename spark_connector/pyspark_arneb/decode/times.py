"""Times as Arrow columns of Spark's type, microseconds in UTC.

The rule: an invalid time (a publisher's timestamp is any 64-bit number) becomes null rather than an
error: one odd message must not make a log unreadable.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last ms of the year 9999, the last that Spark shows."""

US_PER_MS: Final = 1000

TYPE: Final = pa.timestamp("us", "UTC")


def times_of_ms(times_ms: Sequence[int]) -> pa.Array:
    """Convert times in ms; 0 = not set."""
    try:
        return times_of_column(pa.array(times_ms, pa.uint64()))
    except (OverflowError, pa.ArrowInvalid):  # below 0, or above 64 bits
        known = [time if 0 < time <= TIME_MS_MAX else 0 for time in times_ms]
        return times_of_column(pa.array(known, pa.uint64()))


def times_of_column(numbers: pa.Array, unit_ms: int = 1) -> pa.Array:
    """Convert a column of unsigned times, ``unit_ms`` ms each; 0 = not set."""
    if not len(numbers):
        return pa.nulls(0, TYPE)
    time_max = TIME_MS_MAX // unit_ms
    extremes = pc.min_max(numbers)
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    if most == 0 or least > time_max:
        return pa.nulls(len(numbers), TYPE)
    if least == 0 or most > time_max:
        known = pc.and_(
            pc.greater(numbers, pa.scalar(0, pa.uint64())),
            pc.less_equal(numbers, pa.scalar(time_max, pa.uint64())),
        )
        numbers = pc.if_else(known, numbers, pa.scalar(None, pa.uint64()))
    # The scalar has its type given: without it, pyarrow looks for dateutil at every call.
    unit = pa.scalar(unit_ms * US_PER_MS, pa.int64())
    return pc.multiply(numbers.view(pa.int64()), unit).view(TYPE)
