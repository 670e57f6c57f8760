"""Lending the journal: who owns the journal while LMDB commits.

The rule: the journal belongs to the committing thread, which lends it to the event loop while
inside a transaction of LMDB. The transaction takes over what the journal held when it began.
Records that the loop adds meanwhile are independent of it: neither waits for the other, and each is
durable or not by itself. When the transaction ends, in whatever way, the thread owns the journal
again before it looks at it.
"""

from threading import Lock

from arneb_core.store.commit.commit_log import Lent
from arneb_core.store.commit.journal import Journal
from arneb_core.store.format.changes import Changes


class Beside:
    """The lending of one journal. The loop writes under a lock, so the thread waits at most for the
    end of one write."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._journal: Journal | None = None
        self._wanted: Lent | None = None

    def __repr__(self) -> str:
        return f"<Beside, {'lent' if self._journal else 'not lent'}>"

    def lend(self, journal: Journal) -> None:
        """Lend ``journal`` to the loop until :meth:`take_back`. Called in the thread."""
        with self._lock:
            self._journal = journal
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted()

    def take_back(self) -> None:
        """End the lending, if there is one. Called in the thread."""
        if self._journal is not None:
            with self._lock:
                self._journal = None

    def append(self, changes: Changes, lent: Lent) -> int | None:
        """Append a record to the journal; return its size in bytes. None: not now; ``lent`` is
        called in the thread when another try is worthwhile during its commit. Called in the loop.

        Raises :class:`OSError` as :meth:`.Journal.append`.
        """
        with self._lock:
            journal = self._journal
            if journal is None:
                self._wanted = lent
                return None
            return journal.append(changes) if journal.takes(changes) else None
