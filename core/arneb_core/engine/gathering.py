"""Gathering: how much of what waits goes into one commit.

The rule: in the order in which it came, and no more than keeps the commit, and the turn in which it
is planned or told, short for everybody in it. What is left is the next commit.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from arneb_core.engine.planned_commit import PlannedCommit
from arneb_core.engine.request import Request
from arneb_core.engine.topic import LogTopic
from arneb_core.store.commit.commit_log import SMALL_RUNS_MAX, CommitLog, is_for_one_write

COMMIT_ENTRIES_MAX: Final = 4_000
"""Past this a larger commit is no cheaper per entry, it only makes everybody wait longer."""

COMMIT_BYTES_MAX: Final = 4 * 1024 * 1024

COMMIT_APPENDS_MAX: Final = 256
"""Requests and the appends that they make, counted together: 128 single publishes are planned and
told in some 4 ms, and with a thousand connections each commit would be several times that."""


@dataclass(slots=True)
class Gathered:
    """What goes into one commit."""

    requests: list[Request]
    size: int
    may_be_barred: bool
    """Some of it may not come any more, where something goes."""
    removes: bool
    """A topic or subscriptions."""


def waits(log: CommitLog, under_way: Collection[PlannedCommit], waiting_bytes: int) -> bool:
    """The next commit does, until one of those has ended. ``waiting_bytes``: with theirs."""
    if not under_way or len(under_way) >= log.depth:
        return bool(under_way)
    return waiting_bytes - sum(each.size for each in under_way) < log.beside_bytes_min


def is_little(waiting: Collection[Request]) -> bool:
    """What waits is runs, and few enough to be stored by one write, where that is done."""
    if not 0 < len(waiting) <= COMMIT_APPENDS_MAX // 2:
        return False
    entries = size = 0
    topics: set[LogTopic] = set()
    for request in waiting:
        if not request.is_run:
            return False
        entries += request.entries
        size += request.size
        topics.update(request.topics)
    return len(topics) <= SMALL_RUNS_MAX and is_for_one_write(entries, size)


def gather(waiting: deque[Request]) -> Gathered:
    """Take out of ``waiting`` what fits."""
    taken: list[Request] = []
    entries = size = appends = 0
    may_be_barred = removes = False
    while waiting and entries < COMMIT_ENTRIES_MAX and size < COMMIT_BYTES_MAX:
        if appends >= COMMIT_APPENDS_MAX:
            break
        request = waiting.popleft()
        appends += 1 + len(request.appends)
        entries += request.entries
        size += request.size
        if request.deletes_topic is not None or request.leaving:
            may_be_barred = removes = True
        elif not request.passes_over_gone:
            may_be_barred = True
        taken.append(request)
    return Gathered(taken, size, may_be_barred, removes)
