"""An attempt: a commit under way, whose outcome may be unknown.

The rule: an outcome is never guessed. LMDB's last write decides a commit; when that write fails,
the commit may or may not be on disk. Nobody is told until the file was opened again, which shows
which it is, and another commit is durable, which makes it final.
"""

from dataclasses import dataclass, field

from arneb_core.store.format.changes import CommitReport, Trim
from arneb_core.store.format.records import JournalState
from arneb_core.store.journal.held_commits import HeldCommit


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
