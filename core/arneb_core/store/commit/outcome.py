"""An outcome: what became of a commit that failed too late to say.

The rule: an outcome is never guessed. LMDB's last write makes a commit count; when that write
fails, the disk has it or not. Nobody is told before the file was opened again, which shows it, and
before a further commit is durable, which makes it stay so.
"""

from dataclasses import dataclass, field

from arneb_core.store.format.changes import CommitReport, Trim
from arneb_core.store.format.records import JournalState
from arneb_core.store.journal.held import HeldCommit


@dataclass(slots=True)
class Attempt:
    """A commit under way."""

    transaction: int
    """Its number, as LMDB counts."""
    report: CommitReport
    trims_left: list[Trim]
    journal: JournalState | None
    """What it tells LMDB of the journal."""
    held: list[HeldCommit] = field(default_factory=list)
    """What it takes over of that."""
    is_there: bool | None = None
    """None: not known yet."""
