"""Followed users: vhosts and users in this node's directory, whichever node leads.

The rule: a node that does not lead authenticates clients by what it knows, and the leader checks
the user again. It knows the directory's state of a moment ago, which never goes back.
"""

import trio

from arneb_cluster.replica import Replica
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.access.records import PREFIX, Record, Vhost, decode
from arneb_core.access.tables import Changed, Tables


class FollowedUsers:
    """The access catalogue of a directory that another node writes."""

    def __init__(self, replica: Replica) -> None:
        self.tables = Tables()
        """The current tables."""
        self._replica = replica
        self._records: dict[str, tuple[bytes, Record]] = {}
        """Records by their rows' keys, with the rows' content."""
        self._seen = -1
        self._changed = trio.Event()
        self._known = trio.Event()

    def __repr__(self) -> str:
        return f"<FollowedUsers {self.tables!r}>"

    def applied(self) -> None:
        """Note that the directory has changed."""
        if self._replica.metadata_changes != self._seen:
            self._changed.set()

    async def known(self) -> None:
        """Wait until the catalogue exists, which the first leader creates."""
        await self._known.wait()

    def namespace_of(self, vhost: str) -> str:
        """Return the namespace of a vhost, or the one it would get by default."""
        found = self.tables.get(Vhost, vhost)
        return proposed_namespace(vhost) if found is None else found.namespace

    async def run(self) -> None:
        """Follow until cancelled. Raises :class:`ValueError` for rows that cannot be read."""
        while True:
            self._changed = trio.Event()
            self._seen = self._replica.metadata_changes
            self._take_in(await trio.to_thread.run_sync(self._read))
            self.applied()
            await self._changed.wait()

    def _read(self) -> dict[str, bytes]:
        return self._replica.metadata(PREFIX)

    def _take_in(self, rows: dict[str, bytes]) -> None:
        gone = self._records.keys() - rows.keys()
        changed = [Changed(self._records.pop(key)[1], None) for key in gone]
        for key, value in rows.items():
            known = self._records.get(key)
            if known is not None and known[0] == value:
                continue
            record = decode(key, value)
            changed.append(Changed(None if known is None else known[1], record))
            self._records[key] = value, record
        self.tables.apply(changed)
        if self._records:
            self._known.set()
