"""Founding: begins a new history of a shard from one directory.

The rule: it is for a lost topic, or one that ends before what a directory has, and is never done
automatically. Numbers continue, so a node with nothing of the new history notices with the first
record that it lacks something, and takes a copy; trimming does not wait for earlier members.
"""

from pathlib import Path
from random import SystemRandom
from typing import Final
from uuid import uuid4

from arneb_cluster.protocol.values import NOWHERE, Applied, Link
from arneb_cluster.replica import MEMBERS_ROW, UNFOUNDED, Replica, applied_row
from arneb_core.api.errors import StoreUnusable
from arneb_core.store.format.changes import Changes

CHECKSUM_BITS: Final = 32


def applied_in(path: Path) -> Applied:
    """Return how much of the log a directory has that no broker has open. Raises
    :class:`StoreUnusable`."""
    replica = _opened(path)
    try:
        return replica.applied
    finally:
        replica.store.close()


def re_found(path: Path) -> Applied:
    """Begin a new history with a directory that no broker has open; return its new log position.
    Raises :class:`StoreUnusable`."""
    replica = _opened(path)
    try:
        if replica.applied == UNFOUNDED and not replica.has_topics:
            raise StoreUnusable(f"{path} holds nothing that a history could begin with")
        founded = founded_on(replica.applied)
        rows = [applied_row(founded), (*MEMBERS_ROW, None)]
        replica.store.commit(Changes(puts=rows))
        return founded
    finally:
        replica.store.close()


def founded_on(applied: Applied) -> Applied:
    """Return the start of a history that begins with a directory. A directory that was in no shard
    gets a number, too, so that nodes with nothing notice what they lack."""
    link = applied.link
    if not link.number:
        link = Link(1, SystemRandom().getrandbits(CHECKSUM_BITS))
    return Applied(str(uuid4()), link, NOWHERE, link, stamp_ms=applied.stamp_ms)


def _opened(path: Path) -> Replica:
    if not (path / "data.mdb").exists():
        raise StoreUnusable(f"{path} holds no Arneb store")
    return Replica.open(path)
