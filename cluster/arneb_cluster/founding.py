"""Founding: a new history of a shard, that begins with what one directory has.

The rule: it is for when the topic is lost, or ends before what a directory has; nobody does it by
himself. The number goes on, so that who has nothing of this history finds that it lacks something
with the first record, and takes a copy; nobody is waited for who was a member before.
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


def standing_in(path: Path) -> Applied:
    """What a directory has that no broker has open. Raises :class:`StoreUnusable`."""
    replica = _opened(path)
    try:
        return replica.applied
    finally:
        replica.store.close()


def re_found(path: Path) -> Applied:
    """Begin a new history with what a directory has that no broker has open; what it has then.
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
    """What a directory has of a history that begins with it. Of one that was in no shard there is
    a number, too: what follows it is lacking to whoever has nothing."""
    link = applied.link
    if not link.number:
        link = Link(1, SystemRandom().getrandbits(CHECKSUM_BITS))
    return Applied(str(uuid4()), link, NOWHERE, link, stamp_ms=applied.stamp_ms)


def _opened(path: Path) -> Replica:
    if not (path / "data.mdb").exists():
        raise StoreUnusable(f"{path} holds no Arneb store")
    return Replica.open(path)
