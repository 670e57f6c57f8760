"""The access catalogue: vhosts, users, permissions, limits, parameters and policies of one node.

The rule: a change is durable first, and visible then. A change is one commit of its own rows, so a
crash at any instant leaves all of it or nothing, and a replicated commit log carries it as it
carries messages. The settings fill it at the very first start; from then on the store decides, and
an operator who is locked out changes it while no broker runs.
"""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from secrets import token_bytes
from typing import Final, Self

import trio

from arneb_core.access.belonging import EVERYTHING, Belonging
from arneb_core.access.defaults import NO_DEFAULTS, VhostDefaults
from arneb_core.access.edits import UNLIMITED, Edit
from arneb_core.access.namespaces import carried_namespace, proposed_namespace
from arneb_core.access.passwords import SALT_BYTES, PasswordHash, hash_password
from arneb_core.access.records import (
    PREFIX,
    AnyRecord,
    GlobalParameter,
    Seeded,
    User,
    Vhost,
    decode,
)
from arneb_core.access.seed import Seed
from arneb_core.access.tables import Changed, Tables
from arneb_core.api.core import Core, Unit
from arneb_core.api.process.callbacks import call

ALL: Final = ".*"

INTERNAL_CLUSTER_ID: Final = "internal_cluster_id"
"""The global parameter that tells a cluster from all others, as RabbitMQ names it."""

ID_BYTES: Final = 16

RECORDS_PER_TURN: Final = 200
"""Records of a change that are compared and encoded in one turn, in two milliseconds; a larger
change uses a thread."""

AccessWatcher = Callable[[Sequence[Changed]], None]
"""Called with changes once they are durable and visible; it must not block or raise."""

AccessFollower = Callable[[Sequence[Changed]], Awaitable[None]]
"""Like a watcher, but the change waits for it. It must not raise, or take a lock that somebody
holds while changing the catalogue."""

VhostCompanion = Callable[[str], Awaitable[None]]
"""Removes everything in a vhost, for a frontend that keeps something there; may be called again for
the same vhost."""


class Catalogue:
    """The access catalogue of one node."""

    def __init__(
        self,
        core: Core,
        tables: Tables,
        vhosts_max: int,
        defaults: VhostDefaults = NO_DEFAULTS,
        belonging: Belonging = EVERYTHING,
    ) -> None:
        self._core = core
        self.tables: Final = tables
        """The current records; for reading, and for :mod:`.rights`."""
        self._vhosts_max = vhosts_max
        self._defaults = defaults
        self._belonging = belonging
        self._lock = trio.Lock()
        self._watchers: list[AccessWatcher] = []
        self._followers: list[AccessFollower] = []
        self._companions: list[VhostCompanion] = []
        self._removals = trio.Lock()
        self.ignored: tuple[str, ...] = ()
        """Settings that the store overrides, one line each."""

    def __repr__(self) -> str:
        return f"<Catalogue {self.tables!r}>"

    @classmethod
    async def open(
        cls,
        core: Core,
        seed: Seed,
        *,
        vhosts_max: int = UNLIMITED,
        defaults: VhostDefaults = NO_DEFAULTS,
        belonging: Belonging = EVERYTHING,
    ) -> Self:
        """Open the catalogue in the store of ``core``; at the very first start, fill it from
        ``seed``. ``defaults``: what new vhosts get. ``belonging``: what can be here. A store
        without an id of its cluster gets one.

        Raises :class:`ValueError` for rows that cannot be read, :class:`.AccessError` for an
        impossible seed, and :class:`.CommitFailed`.
        """
        rows = core.metadata(PREFIX)
        tables = Tables(decode(row, value) for row, value in rows.items())
        catalogue = cls(core, tables, vhosts_max, defaults, belonging)
        if catalogue.tables.get(Seeded, Seeded().name) is None:
            await catalogue._begin(seed)
        else:
            # The store that owns the users reports what their settings ask.
            own = replace(seed, users=()) if belonging.copied_from else seed
            ignored = partial(_ignored, catalogue.tables, own)
            catalogue.ignored = tuple(await trio.to_thread.run_sync(ignored))
        has_id = catalogue.get(GlobalParameter, INTERNAL_CLUSTER_ID) is not None
        if not (has_id or belonging.copied_from):
            async with catalogue.changing() as edit:
                edit.set_global_parameter(INTERNAL_CLUSTER_ID, _new_cluster_id())
        return catalogue

    async def _begin(self, seed: Seed) -> None:
        async with self.changing() as edit:
            for vhost in dict.fromkeys((*seed.vhosts, *seed.found)):
                edit.put_vhost(vhost, namespace=carried_namespace(vhost, self._core.topics))
            is_copy = bool(self._belonging.copied_from)
            if is_copy:
                edit.copy(seed.copied)
            for user in seed.users:
                if not is_copy:
                    password = await hashed(user.password) if user.password else user.hash
                    edit.put_user(user.name, password, user.tags)
                for vhost in seed.vhosts:
                    edit.set_permissions(user.name, vhost, ALL, ALL, ALL)
            edit.mark_seeded()

    # Looking

    def get(self, kind: type[AnyRecord], *key: str) -> AnyRecord | None:
        """Return the record of that name."""
        return self.tables.get(kind, *key)

    def vhost(self, name: str) -> Vhost | None:
        """Return the vhost of that name, unless it is being removed."""
        vhost = self.tables.get(Vhost, name)
        return None if vhost is None or vhost.leaving else vhost

    def vhost_of(self, namespace: str) -> Vhost | None:
        """Return the vhost that owns a namespace."""
        name = self.tables.vhost_names.get(namespace)
        return None if name is None else self.vhost(name)

    def misplaced(self, vhost: str) -> str:
        """Return why a vhost of that name cannot be here; empty: it can."""
        return self._belonging.misplaced(proposed_namespace(vhost))

    # Changing

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Edit]:
        """Yield an edit that is made, durably and whole, when the block ends without an error.

        Raises :class:`.CommitFailed`: then nothing has changed.
        """
        async with self._lock:
            edit = Edit(self.tables, self._vhosts_max, self._defaults, self._belonging)
            yield edit
            if len(edit) <= RECORDS_PER_TURN:
                changed, rows = edit.written()
            else:
                changed, rows = await trio.to_thread.run_sync(edit.written)
            if not changed:
                return
            with trio.CancelScope(shield=True):  # what is on disk must be in memory too
                await self._core.committed(Unit(metadata=rows))
                self.tables.apply(changed)
        for watcher in self._watchers:
            call(watcher, changed)
        with trio.CancelScope(shield=True):  # the change has been made: carry it out
            for follower in self._followers:
                await follower(changed)

    async def delete_vhost(self, name: str) -> None:
        """Remove a vhost and everything in it. Raises :class:`.NoSuchVhost`.

        From the first commit on nobody gets in and the removal is certain, if need be after the
        next start; when this returns it is complete.
        """
        async with self.changing() as edit:
            edit.begin_vhost_removal(name)
        await self._finish_removals()

    async def _finish_removals(self) -> None:
        if not self._companions:
            return  # those who know what is in a vhost come later
        async with self._removals:
            for vhost in self.tables.rows(Vhost):
                if not vhost.leaving:
                    continue
                for companion in self._companions:
                    await companion(vhost.name)
                async with self.changing() as edit:
                    edit.end_vhost_removal(vhost.name)

    # Being told

    def watch(self, watcher: AccessWatcher) -> None:
        """Tell ``watcher`` of every change from now on."""
        self._watchers.append(watcher)

    def follow(self, follower: AccessFollower) -> None:
        """Have ``follower`` carry out every change from now on."""
        self._followers.append(follower)

    async def accompany_removals(self, companion: VhostCompanion) -> None:
        """Have ``companion`` empty vhosts that are removed, beginning with removals already under
        way."""
        self._companions.append(companion)
        await self._finish_removals()


async def hashed(password: str) -> PasswordHash:
    """Hash a new password in a thread. Raises :class:`.InvalidAccess`."""
    return await trio.to_thread.run_sync(hash_password, password, token_bytes(SALT_BYTES))


def _new_cluster_id() -> str:
    random = urlsafe_b64encode(token_bytes(ID_BYTES)).decode().rstrip("=")
    return f"rabbitmq-cluster-id-{random}"


def _ignored(tables: Tables, seed: Seed) -> list[str]:
    """Return the settings that the store overrides; no passwords, since the result is logged."""
    lines = [
        f"vhost '{name}' is set but not in the store, which decides after the first start"
        for name in seed.vhosts
        if tables.get(Vhost, name) is None
    ]
    for wanted in seed.users:
        user = tables.get(User, wanted.name)
        if user is None:
            lines.append(f"user '{wanted.name}' is set but not in the store, which decides")
            continue
        is_the_one = (
            user.password.admits(wanted.password)
            if wanted.password
            else user.password == wanted.hash
        )
        if not is_the_one:
            lines.append(f"the password set for user '{wanted.name}' is not the one in the store")
        if set(wanted.tags) != set(user.tags):
            lines.append(f"the tags set for user '{wanted.name}' are not those in the store")
    return lines
