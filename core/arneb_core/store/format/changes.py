"""Changes: everything that one commit makes durable, together or not at all.

The rule: plain lists, filled by the engine without a thought for LMDB, and consumed once.
A commit applies them in this order: deletes, puts, blocks, prefixes, trims. So a key that is
both in ``deletes`` and in ``puts`` is there afterwards, and a row that is written in the very
commit that removes its subscription goes with it.
"""

from dataclasses import dataclass, field

from arneb_core.api.position import Position
from arneb_core.store.format.schema import Table, TopicId

Block = tuple[TopicId, Position, list[bytes]]
"""A run of entries: the topic, the position of the first, and the entries, dense from there.
Any length; :meth:`.Store.commit` splits it. It must not cross a ledger boundary."""

Trim = tuple[TopicId, Position, Position]
"""Delete every block of the topic that lies wholly inside [first, last]."""


@dataclass(slots=True)
class Changes:
    """What one commit writes. Not to be touched once it is handed to the store."""

    blocks: list[Block] = field(default_factory=list)
    puts: list[tuple[Table, bytes, bytes | None]] = field(default_factory=list)
    """Applied in this order; None as value deletes the key, whether it is there or not. For
    rows that several parts of one group commit may touch."""
    deletes: list[tuple[Table, bytes]] = field(default_factory=list)
    """Keys that need not be there."""
    prefixes: list[tuple[Table, bytes]] = field(default_factory=list)
    """Delete every key of the table that begins so: a subscription's cursor rows, a topic's
    ledgers. Not for ENTRIES, whose rows are many: :attr:`trims` does that in bounded steps."""
    trims: list[Trim] = field(default_factory=list)
    shared: list[bytes] = field(default_factory=list)
    """Entries that stand in several ``blocks``, the very same objects, and are to be kept once;
    says nothing of what is written, only of how."""

    @property
    def is_plain(self) -> bool:
        """Entries and nothing else."""
        return not (self.puts or self.deletes or self.prefixes or self.trims or self.shared)

    def __bool__(self) -> bool:
        return bool(self.blocks or self.puts or self.deletes or self.prefixes or self.trims)


@dataclass(slots=True)
class CommitReport:
    """What a commit did; it is durable when somebody is given this, and not to be changed then.
    Not frozen: one is made for every commit, and a frozen one costs four times as much to make."""

    blocks: int
    """Blocks written, after splitting."""
    bytes_written: int
    """Bytes of those blocks."""
    trims_left: int
    """Trims that are not finished yet. The store remembers them, durably, and goes on with them
    in every later commit; when there is none, commit empty :class:`Changes`."""
    seconds: float = field(default=0.0, compare=False)
    """What writing and flushing took."""
    unsettled: bool = False
    """It is in the journal only; commit empty :class:`Changes` soon, if there is nothing else."""
