"""Beside: who has the journal while LMDB commits.

The rule: the journal belongs to the thread that commits, and while that is inside a transaction of
LMDB it is lent to the event loop. The transaction takes over what the journal held when it began.
A record that the loop adds meanwhile has nothing to do with the transaction: neither waits for the
other, and each is there or not by itself. When the transaction ends, however it ends, the journal
is the thread's again before that looks at it.
"""

from threading import Lock

from arneb_core.store.commit.commit_log import Lent
from arneb_core.store.commit.journal import Journal
from arneb_core.store.format.changes import Changes


class Beside:
    """The lending of one journal. Whoever writes there in the loop holds the lock, so the thread
    waits for the end of that write at most."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._journal: Journal | None = None
        self._wanted: Lent | None = None

    def __repr__(self) -> str:
        return f"<Beside, {'lent' if self._journal else 'not lent'}>"

    def lend(self, journal: Journal) -> None:
        """In the thread: lend ``journal``, until :meth:`take_back`."""
        with self._lock:
            self._journal = journal
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted()

    def take_back(self) -> None:
        """In the thread: the journal is its own from now on, if it was lent."""
        if self._journal is not None:
            with self._lock:
                self._journal = None

    def append(self, changes: Changes, lent: Lent) -> int | None:
        """In the loop: put a record into the journal; how many bytes that were. None: not now;
        ``lent`` is called, in the thread, when it may be tried again while that commits.

        Raises :class:`OSError` as :meth:`.Journal.append`.
        """
        with self._lock:
            journal = self._journal
            if journal is None:
                self._wanted = lent
                return None
            return journal.append(changes) if journal.takes(changes) else None
