"""An outcome: what became of a commit that failed too late to say.

The rule: an outcome is never guessed. LMDB's last write makes a commit count; when that write
fails, the disk has it or not. Nobody is told until the file was opened again, which shows it, and
another commit is durable, which makes it final.
"""

from dataclasses import dataclass, field

from arneb_core.store.format.changes import CommitReport, Trim
from arneb_core.store.format.records import JournalState
from arneb_core.store.journal.held import HeldCommit


@dataclass(slots=True)
class Attempt:
    """A commit under way."""

    transaction: int
    """Its number in LMDB."""
    report: CommitReport
    trims_left: list[Trim]
    journal: JournalState | None
    """The state of the journal that it tells LMDB."""
    held: list[HeldCommit] = field(default_factory=list)
    """The held commits that it takes over."""
    is_there: bool | None = None
    """Whether it is on disk; None: not known yet."""
