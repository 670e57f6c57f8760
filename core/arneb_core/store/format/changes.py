"""Changes: everything that one commit makes durable, together or not at all.

The rule: plain lists, filled by the engine without regard to LMDB, and consumed once. A commit
applies them in this order: deletes, puts, blocks, prefixes, trims. So a key that is both in
``deletes`` and in ``puts`` exists afterwards, and a row written in the same commit that removes its
subscription goes with it.
"""

from dataclasses import dataclass, field

from arneb_core.api.entries.position import Position
from arneb_core.store.format.schema import Table, TopicId

Block = tuple[TopicId, Position, list[bytes]]
"""A run of entries: the topic, the position of the first, and the entries, dense from there. Of any
length: :meth:`.Store.commit` splits it. It must not cross a ledger boundary."""

Trim = tuple[TopicId, Position, Position]
"""Delete every block of the topic that lies wholly inside [first, last]."""


@dataclass(slots=True)
class Changes:
    """What one commit writes. Not to be changed once it is handed to the store."""

    blocks: list[Block] = field(default_factory=list)
    puts: list[tuple[Table, bytes, bytes | None]] = field(default_factory=list)
    """Applied in this order; None as value deletes the key, if it exists. For rows that several
    parts of one group commit may touch."""
    deletes: list[tuple[Table, bytes]] = field(default_factory=list)
    """Keys that need not exist."""
    prefixes: list[tuple[Table, bytes]] = field(default_factory=list)
    """Delete every key of the table with that prefix: a subscription's cursor rows, a topic's
    ledgers. Not for ENTRIES, whose rows are many: :attr:`trims` deletes those in bounded steps."""
    trims: list[Trim] = field(default_factory=list)
    shared: list[bytes] = field(default_factory=list)
    """Entries that occur in several ``blocks`` as the same objects, to be stored once. Affects only
    how they are written, not what."""

    @property
    def is_plain(self) -> bool:
        """Whether there are only entries."""
        return not (self.puts or self.deletes or self.prefixes or self.trims or self.shared)

    def __bool__(self) -> bool:
        return bool(self.blocks or self.puts or self.deletes or self.prefixes or self.trims)


@dataclass(slots=True)
class CommitReport:
    """What a durable commit did. Not to be changed once handed out; not frozen, because one is made
    for every commit, and a frozen one takes four times as long to make."""

    blocks: int
    """Blocks written, after splitting."""
    bytes_written: int
    """Bytes of those blocks."""
    trims_left: int
    """Unfinished trims. The store remembers them durably and continues them in every later commit;
    if there is no other, commit empty :class:`Changes`."""
    seconds: float = field(default=0.0, compare=False)
    """How long writing and flushing took."""
    needs_takeover: bool = False
    """It is only in the journal; commit empty :class:`Changes` soon if nothing else comes."""
