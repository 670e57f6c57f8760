"""The engine's statistics as a value.

The rule: read from the parts at this instant; nothing is counted here.
"""

from arneb_core.api.statistics import EngineStatistics
from arneb_core.engine.group_commit.committer import Committer
from arneb_core.engine.measurements import NS_PER_S
from arneb_core.engine.scheduling.maintenance import Maintenance
from arneb_core.engine.threads.reader import Reader
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.store.environment import Store


def statistics_of(
    topics: int,
    committer: Committer,
    store: Store,
    maintenance: Maintenance,
    reader: Reader,
    budget: CacheBudget,
) -> EngineStatistics:
    """Return the statistics of the engine that has these parts."""
    measured = committer.measurements
    return EngineStatistics(
        topics=topics,
        commits_total=committer.commits_total,
        entries_total=committer.entries_total,
        commit_failures_total=committer.failures_total,
        waiting_bytes=committer.waiting_bytes,
        cache_bytes=budget.bytes,
        store_bytes=store.size_bytes,
        journal_direct=bool(store.journal_is_direct),
        full=committer.full,
        read_failures_total=maintenance.read_failures_total,
        long_readers=maintenance.readers.long if maintenance.readers else (),
        cache_reads_total=budget.cache_reads_total,
        reads_total=reader.reads_total,
        read_entries_total=reader.entries_total,
        commit_s=measured.latencies.frozen(NS_PER_S),
        commit_entries=measured.entries.frozen(),
    )
