"""Gathering: reads the entries of many ticks at once, in log order, for a source that goes by time.

The rule: a pass over the log reads nearly all its blocks, however few entries it is for; so it
reads as many entries as memory allows, and they stay in the cache until their ticks' turns come.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.delayed.due_cache import ENTRY_BYTES, GATHERED_BYTES_MAX, DueCache
from arneb_core.log.durable_log import Runs
from arneb_core.log.memory_log import Log

RELEASE_MAX: Final = 8_192
"""Keys asked for in one turn, when times count."""

COLLECT_MAX: Final = 32_768
"""Keys collected over several turns, if that many are due, before any of them goes out."""

GATHER_BYTES_MAX: Final = GATHERED_BYTES_MAX // 4 * 3
"""Bytes of gathered entries, as the cache counts them."""

GATHER_ENTRIES_MIN: Final = 64
"""Entries gathered at least, however large they are."""


def gathered_max(log: Log) -> int:
    """Return how many entries of the log's mean size may be gathered. If gathering stopped for its
    bytes, before the end of the log, the first tick would lack the entries there."""
    ledgers = log.ledgers
    mean_bytes = ledgers.bytes // max(1, ledgers.entries) + ENTRY_BYTES
    most = min(COLLECT_MAX, GATHER_BYTES_MAX // mean_bytes)
    return max(GATHER_ENTRIES_MIN, most)


def gather(
    cache: DueCache,
    positions: Iterable[Position],
    read_bytes: int,
    goes_on: Callable[[], bool],
    done: Callable[[], None],
) -> None:
    """Read those of ``positions`` that are not in ``cache`` into it, as long as ``goes_on()``."""
    cached = cache.get
    wanted = sorted([each for each in positions if cached(each) is None])
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
