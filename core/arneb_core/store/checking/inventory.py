"""The inventory: what a check has read so far, for later steps to compare with.

The rule: it holds counts and names, never entries, so that a large store takes little memory.
"""

from collections import Counter
from dataclasses import dataclass, field

from pyroaring import BitMap64

from arneb_core.api.entries.position import ENTRY_MASK, Position, entry_of, ledger_of
from arneb_core.store.checking.findings import FindingKind, Findings
from arneb_core.store.format.changes import Trim
from arneb_core.store.format.records import LedgerRecord
from arneb_core.store.format.schema import BodyKey, SubscriptionId, TopicId
from arneb_core.store.reading.snapshot import Snapshot


@dataclass(slots=True)
class LedgerCount:
    """A ledger's record, and what the blocks hold of it."""

    record: LedgerRecord
    entries: int = 0
    messages: int = 0
    bytes_total: int = 0


@dataclass(slots=True)
class TopicInventory:
    """A topic of the catalog."""

    name: str
    subscriptions: dict[SubscriptionId, str] = field(default_factory=dict)
    ledgers: dict[int, LedgerCount] = field(default_factory=dict)
    """By id, ascending."""
    gaps: dict[Position, Position] = field(default_factory=dict)
    """The last entry of each gap, by its first."""
    delayed: bool = False
    """Some entry may be delayed."""
    delays: BitMap64 = field(default_factory=BitMap64)
    """Positions of entries that have a delay."""
    later: BitMap64 = field(default_factory=BitMap64)
    """Those of them that are not due yet."""
    stamped_ms: int = 0
    """The latest publish time in the log."""

    def contains(self, position: Position) -> bool:
        """Whether the log has an entry there."""
        ledger = self.ledgers.get(ledger_of(position))
        return ledger is not None and entry_of(position) < ledger.entries

    def is_within(self, position: Position) -> bool:
        """Whether a cursor may be there: on an entry, in a ledger that was dropped, or at the bound
        before a ledger that exists or comes next."""
        ledger, newest = ledger_of(position), max(self.ledgers, default=0)
        if entry_of(position) == ENTRY_MASK:
            return ledger <= newest
        return self.contains(position) or (ledger < newest and ledger not in self.ledgers)


@dataclass(slots=True)
class Inventory:
    """One snapshot under check."""

    snapshot: Snapshot
    now_ms: int
    """The time at which entries are due or not."""
    findings: Findings = field(default_factory=Findings)
    topics: dict[TopicId, TopicInventory] = field(default_factory=dict)
    trims: list[Trim] = field(default_factory=list)
    """Unfinished trims: what lies in them is being removed and belongs to nothing."""
    references: Counter[BodyKey] = field(default_factory=Counter)
    """How often blocks refer to each body, including blocks being removed. Only this grows with the
    store: some hundred bytes for each body that is shared now."""
    references_known: bool = True
    """Whether every block could be read."""

    def add(self, kind: FindingKind, where: str, detail: object) -> None:
        """Add a finding."""
        self.findings.add(kind, where, detail)

    def label(self, topic_id: TopicId) -> str:
        """Return a topic's label for people."""
        topic = self.topics.get(topic_id)
        return f"topic {topic_id}" if topic is None else f"topic {topic_id} {topic.name!r}"

    def is_trimmed(self, topic_id: TopicId, first: Position, last: Position) -> bool:
        """Whether an unfinished trim covers [first, last]."""
        return any(
            topic_id == trim_topic and low <= first and last <= high
            for trim_topic, low, high in self.trims
        )
