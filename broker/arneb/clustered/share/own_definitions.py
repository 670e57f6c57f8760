"""Own definitions: the part of the settings' definitions file that one shard's leader imports.

The rule: users, and everything else that belongs to no vhost, belong to the first shard. Another
shard's leader imports the definitions of its vhosts. Rights of a user who is still unknown, because
the first shard's leader has not imported the file yet, are granted once the user is known. A user
who does not appear is named in the log, and nothing else waits.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from arneb.http.management.definitions.file import definitions_in
from arneb.http.management.definitions.importing import import_definitions, load_definitions
from arneb.http.management.requests.calls import Refused
from arneb.http.shards.gathering import cut
from arneb_amqp.topology.topology import Topology
from arneb_cluster.routing.division import Division
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import User

logger = logging.getLogger(__name__)

WAIT_S: Final = 60.0
"""How long to wait for users: the first shard's leader, if there is one, serves in this time."""

GRANTS: Final = ("permissions", "topic_permissions")


class OwnDefinitions:
    """The definitions of one shard, for one broker of it."""

    def __init__(self, division: Division, shard: str) -> None:
        self._division = division
        self._shard = shard
        self._late: dict[str, list[Mapping[str, Any]]] = {each: [] for each in GRANTS}
        """Rights of users who are not known yet."""

    def __repr__(self) -> str:
        return f"<OwnDefinitions of {self._shard}, {sum(map(len, self._late.values()))} late>"

    async def load(self, catalogue: Catalogue, topology: Topology, path: Path) -> None:
        """Import this shard's part, as far as users are known. Raises :class:`ValueError`."""

        def part(document: dict[str, Any]) -> dict[str, Any]:
            return self._part(document, catalogue)

        await load_definitions(catalogue, topology, path, part)

    def _part(self, document: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
        division, shard = self._division, self._shard
        found = cut(document, (division.first, shard), division.shard_of).get(shard, {})
        if shard == division.first:
            return found
        for kind, late in self._late.items():
            if not isinstance(rows := found.get(kind), list):
                continue
            known = [each for each in rows if _is_known(each, catalogue)]
            late += [each for each in rows if not _is_known(each, catalogue)]
            found[kind] = known
        return found

    async def grant_late(self, catalogue: Catalogue, topology: Topology) -> None:
        """Grant the remaining rights to users as they become known, for a while."""
        changed = trio.Event()

        def look(_: object) -> None:
            changed.set()

        catalogue.watch(look)
        with trio.move_on_after(WAIT_S):
            while any(self._late.values()):
                changed = trio.Event()
                await self._grant(catalogue, topology)
                if any(self._late.values()):
                    await changed.wait()
        for user in sorted({str(row["user"]) for rows in self._late.values() for row in rows}):
            logger.warning(
                "shard %s: what the definitions grant to user '%s' was left out: there is none",
                self._shard, user,
            )  # fmt: skip

    async def _grant(self, catalogue: Catalogue, topology: Topology) -> None:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for kind, rows in self._late.items():
            found[kind] = [each for each in rows if _is_known(each, catalogue)]
            self._late[kind] = [each for each in rows if not _is_known(each, catalogue)]
        if any(found.values()):
            definitions = definitions_in(json.dumps(found).encode(), None)
            try:
                await import_definitions(catalogue, topology, definitions)
            except Refused as refused:  # for example, the vhost was removed meanwhile
                logger.warning("shard %s: definitions: %s", self._shard, refused.reason)


def _is_known(row: Any, catalogue: Catalogue) -> bool:
    """Whether a row's user is known; a row without a user is left for the import to refuse."""
    user = row.get("user") if isinstance(row, dict) else None
    return not isinstance(user, str) or catalogue.get(User, user) is not None
