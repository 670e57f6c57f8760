"""A request: changes that go into one commit together, and the callback for the outcome.

The rule: its callback is called once; changes that are only in memory are made between the commit
and that call, or never.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from arneb_core.api.core import CountedRun
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.callbacks import Appended, call
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.stamps import STAMP, STAMP_OFFSET, stamped_from
from arneb_core.log.written_ahead import Ahead
from arneb_core.store.format.bodies import SHARED_BYTES_MIN, shared_entries
from arneb_core.store.format.changes import Block, Trim
from arneb_core.store.format.schema import FRONTEND_PREFIX, Table

Append = tuple[LogTopic, list[bytes], int | None]
"""A topic, its new entries, and the number of messages in them, if known."""

Finish = Callable[[CommitFailed | None, list[Position]], None]
"""Gets the first position of each append of the request, in order (empty on failure)."""

NOWHERE: Final = Position(0)
"""The first position reported for an append without entries."""


@dataclass(slots=True)
class Request:
    """Changes that go into one commit together. One is made for every run of publishes, so fields
    that it does not use cost nothing."""

    finish: Finish | None = None
    appends: Sequence[Append] = ()
    appended: Appended | None = None
    """Called instead of ``finish`` if the request is a single run."""
    acks: Sequence[tuple[LogConsumer, Sequence[Position], Mapping[Position, int]]] = ()
    puts: Sequence[tuple[Table, bytes, bytes | None]] = ()
    rows_of: LogTopic | None = None
    """The topic that ``puts`` describe: if it goes, they are not written."""
    prefixes: Sequence[tuple[Table, bytes]] = ()
    trims: Sequence[Trim] = ()
    on_commit: Callable[[], None] | None = None
    """Makes a catalog change visible, before the request is called back."""
    deletes_topic: LogTopic | None = None
    leaving: tuple[LogSubscription, ...] = ()
    """Subscriptions that this removes: their cursors must not be written with it."""
    shared: Sequence[bytes] = ()
    """Entries that are in several of ``appends``, to be stored once."""
    runs: Sequence[CountedRun] = ()
    """Runs appended after :attr:`appends`, each on its own."""
    ahead: Sequence[tuple[LogTopic, Block]] = ()
    """Blocks written ahead, at positions that no ledger has yet."""
    gives_up: Sequence[tuple[LogTopic, Ahead]] = ()
    """Runs written ahead that are to be removed, unless they became part of their log."""
    rolls: LogTopic | None = None
    """A topic whose last ledger is to end, if no append to it is under way."""
    in_memory: Sequence[LogTopic] = ()
    """Topics kept only in memory that ``on_commit`` appends to."""
    passes_over_gone: bool = False
    """See :attr:`arneb_core.api.core.Unit.passes_over_gone`."""
    entries: int = 0
    size: int = 0

    @property
    def is_durable(self) -> bool:
        """Whether some of it goes to disk."""
        rows = self.puts or self.prefixes or self.trims
        return bool(self.appends or self.runs or self.acks or rows)

    @property
    def is_held_up(self) -> bool:
        """Whether an append to one of its topics in memory waits before it."""
        return any(topic.appends_held_up for topic in self.in_memory)

    @property
    def is_run(self) -> bool:
        """Whether it is only a publisher's run, which must follow that publisher's earlier runs."""
        return self.appended is not None and not self.puts

    @property
    def is_appends(self) -> bool:
        """Whether it is runs of entries and changes nothing else."""
        rows = self.puts or self.acks or self.prefixes or self.trims
        ready_made = self.runs or self.ahead or self.gives_up or self.in_memory
        topics = self.deletes_topic or self.leaving or self.rolls
        return not (rows or ready_made or topics or self.on_commit)

    @property
    def is_entries_and_rows(self) -> bool:
        """Whether it is runs of entries with rows of a frontend: a Pulsar transaction, or a run
        that records its producers' sequence numbers."""
        if not (self.puts and (self.appends or self.runs)):
            return False
        others = self.acks or self.prefixes or self.trims or self.ahead or self.gives_up
        topics = self.deletes_topic or self.leaving or self.rolls or self.in_memory
        if others or topics or self.shared or self.rows_of is not None:
            return False
        is_kept = [
            table is Table.CATALOG and key.startswith(FRONTEND_PREFIX)
            for table, key, _ in self.puts
        ]
        return all(is_kept) and all(run.first is None for run in self.runs)

    @property
    def topics(self) -> list[LogTopic]:
        """The topics that it appends to."""
        appends = [topic for topic, _, _ in self.appends]
        ahead = [topic for topic, _ in self.ahead]
        return [*appends, *map(topic_of, self.runs), *self.in_memory, *ahead]

    def barred_from(self, going: Collection[LogTopic]) -> LogTopic | None:
        """Return a topic of this request that takes nothing in any more, being gone or in
        ``going``."""
        for topic in self.topics:
            if (topic.gone or topic in going) and topic.refuses(self.passes_over_gone):
                return topic
        return None

    def share(self) -> None:
        """Store large entries that are in several of the appends once, and count them once."""
        if len(self.appends) < 2 or self.size < 2 * SHARED_BYTES_MIN:
            return
        runs = [entries for _, entries, _ in self.appends]
        self.shared = shared_entries(runs)
        if self.shared:
            self.size = sum(map(len, {id(each): each for run in runs for each in run}.values()))

    def fail(self, error: CommitFailed) -> None:
        """Say that nothing of it is on disk."""
        self.let_others_come()
        if self.appended is not None:
            call(self.appended, error, NOWHERE)
        elif self.finish is not None:
            call(self.finish, error, [])

    def let_others_come(self) -> None:
        """Let appends go past this request: they need not wait for it any more."""
        for topic in self.in_memory:
            topic.appends_held_up -= 1


def part(
    waiting: Iterable[Request], failed: Iterable[Request]
) -> tuple[list[Request], deque[Request]]:
    """Split ``waiting`` into the runs that follow a ``failed`` run in its topic, and the rest.

    Stored by a later commit, such a run would precede what its publisher sends again.
    """
    topics = {topic for request in failed if request.is_run for topic in request.topics}
    behind: list[Request] = []
    others: deque[Request] = deque()
    for request in waiting:
        fails = request.is_run and not topics.isdisjoint(request.topics)
        (behind if fails else others).append(request)
    return behind, others


def keep_order(requests: Iterable[Request]) -> None:
    """Stamp what ``requests`` append so that it follows, in this order, what is in its logs."""
    unpack = STAMP.unpack_from
    for request in requests:
        if request.runs:
            _keep_order_of_runs(request)
        appends = request.appends
        if len(appends) == 1:  # the usual case
            ((topic, entries, _),) = appends
            if not entries:
                continue
            log = topic.log
            (first_ms,) = unpack(entries[0], STAMP_OFFSET)
            if first_ms >= log.stamped_ms:
                log.stamped_ms = (
                    first_ms if len(entries) == 1 else unpack(entries[-1], STAMP_OFFSET)[0]
                )
                continue
        for topic, entries, _ in appends:
            if entries and unpack(entries[0], STAMP_OFFSET)[0] < topic.log.stamped_ms:
                _stamp_again(request)
                break
        for topic, entries, _ in request.appends:
            if entries:
                topic.log.stamped_ms = unpack(entries[-1], STAMP_OFFSET)[0]


def topic_of(run: CountedRun) -> LogTopic:
    """Return the topic of ``run``."""
    assert isinstance(run.topic, LogTopic), "topics come from this engine"
    return run.topic


def _keep_order_of_runs(request: Request) -> None:
    """Stamp runs again that are older than the end of their log."""
    kept: list[CountedRun] = []
    for run in request.runs:
        log = topic_of(run).log
        (first_ms,) = STAMP.unpack_from(run.entries[0], STAMP_OFFSET)
        if run.first is None and first_ms < log.stamped_ms:
            run = replace(run, entries=stamped_from(run.entries, log.stamped_ms, {}))
        (last_ms,) = STAMP.unpack_from(run.entries[-1], STAMP_OFFSET)
        log.stamped_ms = max(log.stamped_ms, last_ms)
        kept.append(run)
    request.runs = kept


def _stamp_again(request: Request) -> None:
    """Stamp all appends with a time that may follow in each of their logs: entries that are in
    several topics stay one object."""
    floor_ms = max(topic.log.stamped_ms for topic, entries, _ in request.appends if entries)
    made: dict[int, bytes] = {}
    request.appends = [
        (topic, stamped_from(entries, floor_ms, made), count)
        for topic, entries, count in request.appends
    ]
    request.shared = [made.get(id(entry), entry) for entry in request.shared]
