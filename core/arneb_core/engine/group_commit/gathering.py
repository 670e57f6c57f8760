"""Gathering: how many of the waiting requests go into one commit.

The rule: take them in arrival order, and only as many as keep the commit, and the turns that plan
and report it, short for all of them. The rest is for the next commit.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.commit.commit_log import SMALL_RUNS_MAX, CommitLog, is_for_one_write

COMMIT_ENTRIES_MAX: Final = 4_000
"""Entries in one commit. A larger one is no cheaper per entry, and everybody waits longer."""

COMMIT_BYTES_MAX: Final = 4 * 1024 * 1024

COMMIT_APPENDS_MAX: Final = 256
"""Requests and their appends in one commit, counted together. 128 single publishes are planned and
told in some 4 ms; with a thousand connections, each commit would take several times that."""


@dataclass(slots=True)
class Gathered:
    """The requests of one commit."""

    requests: list[Request]
    size: int
    may_be_barred: bool
    """Some requests may have to be refused, because what they concern is being removed."""
    removes: bool
    """Some request removes a topic or subscriptions."""


def waits(log: CommitLog, under_way: Collection[PlannedCommit], waiting_bytes: int) -> bool:
    """Whether the next commit waits for one of these to end. ``waiting_bytes`` includes theirs."""
    if not under_way or len(under_way) >= log.depth:
        return bool(under_way)
    return waiting_bytes - sum(each.size for each in under_way) < log.beside_bytes_min


def is_little(waiting: Collection[Request]) -> bool:
    """Whether only runs wait, few enough for one write where the commit log does that."""
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
    """Take out of ``waiting`` what fits into one commit."""
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
