"""What a node stores, on disk and beside that in memory.

The rule: a small commit is only held in memory, where readers in the process find it. It reaches
the disk later, or never if the process is killed. This is the model; the real directory is in
:mod:`tests.cluster.real_directory`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from arneb_cluster.protocol.members import Members
from arneb_cluster.protocol.reader import Commit
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied
from arneb_core.api.errors import StoreFailed

EMPTY = Applied("", FOUNDATION, NOWHERE, FOUNDATION)
MEMBERS = b"members:"
"""Begins the body of a commit that is a list of members."""
LARGE_BYTES = 60
"""Size of a body that is not held."""


def is_held(body: bytes) -> bool:
    """Commits with a list of members are not held: a node that gives copies goes by the list on its
    disk."""
    return not body.startswith(MEMBERS) and len(body) < LARGE_BYTES


class Directory(Protocol):
    """A directory, and what its process holds of it in memory."""

    @property
    def applied(self) -> Applied:
        """How far readers in the process find the log."""
        ...

    @property
    def flushed(self) -> Applied:
        """How far it is on disk."""
        ...

    @property
    def reported(self) -> Applied:
        """How far its node reports to have the log."""
        ...

    @property
    def members(self) -> Members: ...

    @property
    def found(self) -> list[bytes]:
        """The commits that a reader in the process finds."""
        ...

    def on_disk(self) -> list[bytes]:
        """Those that a reader in another process finds."""
        ...

    def hold(self, commit: Commit) -> bool: ...

    def apply(self, commit: Commit) -> None:
        """Raises :class:`.CommitFailed`."""
        ...

    def take_over(self, beside: Callable[[], None]) -> None:
        """``beside`` is called while the takeover is in progress. Raises :class:`.CommitFailed`."""
        ...

    def fail(self) -> None:
        """Its disk accepts nothing until it is repaired or the process restarts."""
        ...

    def mend(self) -> None: ...

    def again(self) -> "Directory":
        """As a process that starts after this one was killed finds it."""
        ...

    def cut_off(self) -> "Directory":
        """The same if it was killed while it took over what it held."""
        ...

    def copied(self) -> "Directory":
        """A copy, as another node starts with it."""
        ...

    def close(self) -> None:
        """It is no longer used."""
        ...


@dataclass
class MemoryDirectory:
    """The model."""

    flushed: Applied = EMPTY
    bodies: list[bytes] = field(default_factory=list)
    members: Members = field(default_factory=lambda: Members({}))
    held: list[Commit] = field(default_factory=list)
    fails: bool = False

    @property
    def applied(self) -> Applied:
        return self.held[-1].applied if self.held else self.flushed

    @property
    def reported(self) -> Applied:
        return self.flushed

    @property
    def found(self) -> list[bytes]:
        return self.bodies + [each.body for each in self.held if each.body]

    def on_disk(self) -> list[bytes]:
        return self.bodies

    def hold(self, commit: Commit) -> bool:
        if not is_held(commit.body):
            return False
        self.held.append(commit)
        return True

    def apply(self, commit: Commit) -> None:
        self.held.append(commit)
        try:
            self._write(len(self.held))
        except StoreFailed:
            self.held.pop()
            raise

    def take_over(self, beside: Callable[[], None]) -> None:
        if count := len(self.held):
            beside()
            self._write(count)

    def _write(self, count: int) -> None:
        commits = self.held[:count]
        if self.fails:
            raise StoreFailed("the disk")
        for each in commits:
            if each.body:
                self.bodies.append(each.body)
            if each.body.startswith(MEMBERS):
                self.members = Members.unpack(each.body[len(MEMBERS) :])
        self.flushed = commits[-1].applied
        del self.held[:count]

    def fail(self) -> None:
        self.fails = True

    def mend(self) -> None:
        self.fails = False

    def again(self) -> "MemoryDirectory":
        return self.copied()

    def cut_off(self) -> "MemoryDirectory":
        return self.copied()

    def copied(self) -> "MemoryDirectory":
        return MemoryDirectory(self.flushed, list(self.bodies), self.members)

    def close(self) -> None:
        """There is nothing to return."""
