"""Copied users: the first shard's users, in the catalogue of another shard that this node leads.

The rule: no client is admitted before everything that the first shard's topic had by then is
copied; later changes are copied once this node's directory of the first shard has them. Each copy
shows one instant of that directory, so a removed user loses all rights.
"""

from typing import Final, Protocol

import trio

from arneb_cluster.protocol.values import Place
from arneb_cluster.replica import Replica
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import PREFIX, GlobalParameter, Seeded, User, decode

Copied = tuple[User | GlobalParameter, ...]

COPIED: Final = tuple(f"{PREFIX}{kind.TABLE}/" for kind in (User, GlobalParameter))
"""The prefixes of the copied rows' keys."""

BEGUN: Final = f"{PREFIX}{Seeded.TABLE}/"
"""The prefix of the row that says that the catalogue exists."""


class FirstShard(Protocol):
    """The first shard on this node."""

    @property
    def replica(self) -> Replica:
        """The first shard's directory."""
        ...

    async def ends(self) -> Place:
        """Return where its topic ends now."""
        ...

    async def has(self, place: Place) -> None:
        """Wait until the directory has everything up to a place. Raises :class:`.UsersUnknown`."""
        ...

    async def metadata_other_than(self, changes: int) -> None:
        """Wait until :attr:`.Replica.metadata_changes` differs from ``changes``."""
        ...


class CopiedUsers:
    """Copies into the catalogues of one shard, one catalogue after another."""

    def __init__(self, first: FirstShard) -> None:
        self._first = first
        self._catalogue: Catalogue | None = None
        """The current broker's catalogue."""
        self._copying = trio.Lock()

    def __repr__(self) -> str:
        return f"<CopiedUsers of {self._first!r}, {'copies' if self._catalogue else 'rests'}>"

    async def known(self) -> Copied:
        """Return the users, including everything that the topic had at the call, once the catalogue
        exists. Raises :class:`.UsersUnknown`."""
        first = self._first
        await first.has(await first.ends())
        while True:
            changes = first.replica.metadata_changes
            if (found := await self._found()) is not None:
                return found
            await first.metadata_other_than(changes)  # the very first leader creates it

    async def begin(self, catalogue: Catalogue) -> None:
        """Copy into this catalogue: at once what is known; :meth:`follow` then copies changes."""
        self._catalogue = catalogue
        await self._copy()

    async def follow(self) -> None:
        """Copy whatever changes, until cancelled."""
        first = self._first
        while True:
            changes = first.replica.metadata_changes
            await self._copy()
            await first.metadata_other_than(changes)

    def end(self) -> None:
        """Forget the catalogue of a broker that has stopped."""
        self._catalogue = None

    async def catch_up(self) -> None:
        """Copy every change that the first shard's leader confirmed before this call. Raises
        :class:`.UsersUnknown`."""
        first = self._first
        await first.has(await first.ends())
        await self._copy()

    async def _copy(self) -> None:
        async with self._copying:
            found = await self._found()
            if found is None or self._catalogue is None:
                return
            async with self._catalogue.changing() as edit:
                edit.copy(found)

    async def _found(self) -> Copied | None:
        """Return the users in the directory; None if there is no catalogue yet."""
        return await trio.to_thread.run_sync(_read, self._first.replica)


def _read(replica: Replica) -> Copied | None:
    rows = replica.metadata(PREFIX)  # all kinds in one call, for one instant
    if not any(key.startswith(BEGUN) for key in rows):
        return None
    found = (decode(key, value) for key, value in rows.items() if key.startswith(COPIED))
    return tuple(each for each in found if isinstance(each, User | GlobalParameter))
