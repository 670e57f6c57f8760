"""Copied users: those of the first shard, in the catalogue of another shard that this node leads.

The rule: nobody is let in before what the first shard's topic had by then is copied; later changes
are copied when this node's directory of the first shard has them. What is copied is what that
directory had at one instant, so a user who is removed loses all that was granted.
"""

from typing import Final, Protocol

import trio

from arneb_cluster.protocol.values import Place
from arneb_cluster.replica import Replica
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import PREFIX, GlobalParameter, Seeded, User, decode

Copied = tuple[User | GlobalParameter, ...]

COPIED: Final = tuple(f"{PREFIX}{kind.TABLE}/" for kind in (User, GlobalParameter))
"""What the keys of the rows begin with that are copied."""

BEGUN: Final = f"{PREFIX}{Seeded.TABLE}/"
"""The same of the row that says that there is a catalogue."""


class FirstShard(Protocol):
    """The first shard on this node."""

    @property
    def replica(self) -> Replica:
        """Its directory."""
        ...

    async def ends(self) -> Place:
        """Where its topic ends now."""
        ...

    async def has(self, place: Place) -> None:
        """Wait until the directory has what stands up to there. Raises :class:`.UsersUnknown`."""
        ...

    async def metadata_other_than(self, changes: int) -> None:
        """Wait until :attr:`.Replica.metadata_changes` is another."""
        ...


class CopiedUsers:
    """Copies into the catalogues of one shard, one after the other."""

    def __init__(self, first: FirstShard) -> None:
        self._first = first
        self._catalogue: Catalogue | None = None
        """Of the broker that there is."""
        self._copying = trio.Lock()

    def __repr__(self) -> str:
        return f"<CopiedUsers of {self._first!r}, {'copies' if self._catalogue else 'rests'}>"

    async def known(self) -> Copied:
        """Whoever there is, once there is a catalogue, and by all that the topic had when this was
        asked. Raises :class:`.UsersUnknown`."""
        first = self._first
        await first.has(await first.ends())
        while True:
            changes = first.replica.metadata_changes
            if (found := await self._found()) is not None:
                return found
            await first.metadata_other_than(changes)  # the first leader of all makes it

    async def begin(self, catalogue: Catalogue) -> None:
        """Copy into this catalogue from now on: at once what is known, and then what :meth:`follow`
        is run for."""
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
        """Its broker is no more."""
        self._catalogue = None

    async def catch_up(self) -> None:
        """Copy what the first shard's leader has said to be done before this was asked. Raises
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
        """Whoever the directory has; None: there is no catalogue yet."""
        return await trio.to_thread.run_sync(_read, self._first.replica)


def _read(replica: Replica) -> Copied | None:
    rows = replica.metadata(PREFIX)  # of one instant, and so all kinds at once
    if not any(key.startswith(BEGUN) for key in rows):
        return None
    found = (decode(key, value) for key, value in rows.items() if key.startswith(COPIED))
    return tuple(each for each in found if isinstance(each, User | GlobalParameter))
