"""Gathering: entries of many ticks read at once, in log order, for a source that goes by time.

The rule: a look at the log reads nearly all blocks however few entries it is for, so it is for as
many as memory has a bound for; they stay in the cache until their ticks' turns come.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import Position
from arneb_core.delayed.due_cache import ENTRY_BYTES, GATHERED_BYTES_MAX, DueCache
from arneb_core.log.durable_log import Runs
from arneb_core.log.memory_log import Log

RELEASE_MAX: Final = 8_192
"""Keys asked for in a turn, when times count,"""

COLLECT_MAX: Final = 32_768
"""and so many over several turns, if so many are due, before any of them goes out."""

GATHER_BYTES_MAX: Final = GATHERED_BYTES_MAX // 4 * 3
"""Of their entries, as they count in the cache."""

GATHER_ENTRIES_MIN: Final = 64
"""However large the log's entries are."""


def gathered_max(log: Log) -> int:
    """So many of the log's entries, as they are on the average, are what may be gathered: if it
    ended before the last of the log, the first tick would lack what stands there."""
    ledgers = log.ledgers
    mean_bytes = ledgers.bytes // max(1, ledgers.entries) + ENTRY_BYTES
    most = min(COLLECT_MAX, GATHER_BYTES_MAX // mean_bytes)
    return max(GATHER_ENTRIES_MIN, most)


def gather(
    cache: DueCache,
    places: Iterable[Position],
    read_bytes: int,
    goes_on: Callable[[], bool],
    done: Callable[[], None],
) -> None:
    """Have what of ``places`` is not in ``cache`` read into it, while it ``goes_on``."""
    cached = cache.get
    wanted = sorted([each for each in places if cached(each) is None])
    cache.make_room()
    size = 0

    def more(found: Runs | StoreFailed) -> None:
        nonlocal wanted, size
        if isinstance(found, StoreFailed) or not found:
            done()
            return
        size += sum([len(entries[0]) for _, entries in found]) + ENTRY_BYTES * len(found)
        wanted = wanted[bisect_right(wanted, found[-1][0]) :]
        if wanted and size < GATHER_BYTES_MAX and goes_on():
            cache.read(wanted, read_bytes, more)
        else:
            done()

    cache.read(wanted, read_bytes, more)
