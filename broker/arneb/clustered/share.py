"""The share: what of everything the broker of one shard has, and whom it knows.

The rule: what is another shard's is refused where it would come to be, and what was there before
the settings gave it to another shard stops the start: nothing is in two places, and nothing is
silently in none.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from arneb.clustered.copied_tenants import CopiedTenants
from arneb.clustered.copied_users import CopiedUsers
from arneb.clustered.own_definitions import OwnDefinitions
from arneb.http.routing.caught_up import UsersUnknown
from arneb_amqp.topology.topology import Topology
from arneb_cluster.routing.division import Division
from arneb_cluster.routing.leaders import Leaders
from arneb_core.access.belonging import Belonging
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.access.records import User, Vhost
from arneb_core.access.seed import Seed
from arneb_core.api.errors import StoreUnusable
from arneb_core.api.placement import NOBODY, Elsewhere, Placement, Placements
from arneb_core.api.supervision import supervise
from arneb_pulsar.services.context import BrokerContext

_SCHEMES: Final = ("persistent", "non-persistent")


class Share:
    """What one shard has."""

    def __init__(
        self,
        division: Division,
        shard: str,
        vhosts: tuple[str, ...] = (),
        users: CopiedUsers | None = None,
        tenants: CopiedTenants | None = None,
    ) -> None:
        """``vhosts``: those that the settings say to be in it. ``users``, ``tenants``: of another
        shard than the first."""
        self._division = division
        self._shard = shard
        self._vhosts = vhosts
        self._users = users
        self._tenants = tenants
        self._nursery: trio.Nursery | None = None
        """Of the broker that there is."""

    def __repr__(self) -> str:
        return f"<Share of {self._shard}>"

    @property
    def belonging(self) -> Belonging:
        """The same for its catalogue."""
        return Belonging(self.misplaced, "" if self._users is None else self._division.first)

    def misplaced(self, namespace: str) -> str:
        """Why a namespace cannot be in it; empty: it can."""
        return self._division.misplaced(self._shard, namespace)

    async def seed(self, wanted: Seed) -> Seed:
        """What of the settings' vhosts and users its catalogue begins with. Raises
        :class:`StoreUnusable` where the users cannot be known."""
        vhosts = dict.fromkeys((*wanted.vhosts, *self._vhosts))
        own = tuple(each for each in vhosts if not self.misplaced(proposed_namespace(each)))
        if self._users is None:
            return replace(wanted, vhosts=own)
        try:
            copied = await self._users.known()
        except UsersUnknown as error:
            # Another node is to lead that knows them: this one would let nobody in for ever.
            raise StoreUnusable(f"cannot lead shard {self._shard}: {error}") from error
        known = {each.name for each in copied if isinstance(each, User)}
        users = tuple(each for each in wanted.users if each.name in known)
        return replace(wanted, vhosts=own, users=users, copied=copied)

    def check(self, catalogue: Catalogue, topics: Iterable[str]) -> None:
        """Raise :class:`ValueError` for what is stored here and is another shard's."""
        if not self._division.is_divided:
            return
        for vhost in catalogue.tables.rows(Vhost):
            for each in (proposed_namespace(vhost.name), vhost.namespace):
                if why := self.misplaced(each):
                    raise ValueError(f"virtual host '{vhost.name}': {why}")
        for topic in topics:
            namespace = _namespace_of(topic)
            if namespace and (why := self.misplaced(namespace)):
                raise ValueError(f"topic {topic}: {why}")

    async def catch_up(self) -> None:
        """Know whoever was made elsewhere before this was asked. Raises :class:`.UsersUnknown`."""
        if self._users is not None:
            await self._users.catch_up()
        if self._tenants is not None:
            await self._tenants.copy()

    async def begin(self, catalogue: Catalogue, nursery: trio.Nursery) -> None:
        """Have whoever is known known here, and from now on."""
        self._nursery = nursery
        if (users := self._users) is not None:
            await users.begin(catalogue)
            nursery.start_soon(supervise, f"copying users to {self._shard}", users.follow)

    async def begin_tenants(self, context: BrokerContext, nursery: trio.Nursery) -> None:
        """Have the tenants known here that were made elsewhere, and from now on."""
        if (tenants := self._tenants) is not None:
            await tenants.begin(context)
            nursery.start_soon(supervise, f"copying tenants to {self._shard}", tenants.follow)

    async def load_definitions(self, catalogue: Catalogue, topology: Topology, path: Path) -> None:
        """Take in what of the settings' definitions is in it. Raises :class:`ValueError`."""
        own = OwnDefinitions(self._division, self._shard)
        await own.load(catalogue, topology, path)
        assert self._nursery is not None, "it was begun with"
        self._nursery.start_soon(
            supervise, f"definitions of {self._shard}", partial(own.grant_late, catalogue, topology)
        )


class OwnPlacements:
    """Where the namespaces of one shard are, for its broker: those of others are nowhere, though
    this node may lead them too, and where another node is clients are not told, since they say
    there which shard they want. Fulfils :class:`~arneb_core.api.placement.Placements`."""

    def __init__(self, leaders: Leaders, shard: str) -> None:
        self._leaders = leaders
        self._shard = shard

    def __repr__(self) -> str:
        return f"<OwnPlacements of {self._shard}>"

    def of(self, namespace: str) -> Placement:
        """Who serves it at this instant."""
        if self._leaders.division.shard_of(namespace) != self._shard:
            return NOBODY
        found = self._leaders.of_shard(self._shard)
        if isinstance(found, Elsewhere):
            untold = replace(found.addresses, pulsar="", pulsar_tls="")
            return replace(found, addresses=untold)
        return found

    def listen(self, changed: Callable[[], None]) -> None:
        """Call it whenever an answer may be another."""
        self._leaders.listen(changed)

    def leave(self, changed: Callable[[], None]) -> None:
        """Call it no more."""
        self._leaders.leave(changed)


def placements_of(leaders: Leaders, shard: str) -> Placements:
    """What the broker of a shard is told of where things are."""
    return OwnPlacements(leaders, shard) if leaders.division.is_divided else leaders


def _namespace_of(topic: str) -> str:
    """Empty: a frontend keeps something there of its own."""
    scheme, found, rest = topic.partition("://")
    if not found or scheme not in _SCHEMES:
        return ""
    tenant, _, rest = rest.partition("/")
    return f"{tenant}/{rest.partition('/')[0]}"
