"""The share: the namespaces, users and tenants that the broker of one shard has.

The rule: anything that belongs to another shard is refused where it would be created, and anything
that was here before the settings gave it to another shard prevents the start: nothing is in two
shards, and nothing is silently in none.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from arneb.clustered.share.copied_tenants import CopiedTenants
from arneb.clustered.share.copied_users import CopiedUsers
from arneb.clustered.share.own_definitions import OwnDefinitions
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
from arneb_core.api.nodes.placement import NOBODY, Elsewhere, Placement, Placements
from arneb_core.api.process.supervision import supervise
from arneb_pulsar.services.context import BrokerContext

_SCHEMES: Final = ("persistent", "non-persistent")


class Share:
    """The share of one shard."""

    def __init__(
        self,
        division: Division,
        shard: str,
        vhosts: tuple[str, ...] = (),
        users: CopiedUsers | None = None,
        tenants: CopiedTenants | None = None,
    ) -> None:
        """``vhosts`` are those that the settings put in this shard. ``users`` and ``tenants`` are
        given for every shard except the first."""
        self._division = division
        self._shard = shard
        self._vhosts = vhosts
        self._users = users
        self._tenants = tenants
        self._nursery: trio.Nursery | None = None
        """The current broker's nursery."""

    def __repr__(self) -> str:
        return f"<Share of {self._shard}>"

    @property
    def belonging(self) -> Belonging:
        """The same rule for the shard's catalogue."""
        return Belonging(self.misplaced, "" if self._users is None else self._division.first)

    def misplaced(self, namespace: str) -> str:
        """Return why a namespace cannot be in this shard; empty if it can."""
        return self._division.misplaced(self._shard, namespace)

    async def seed(self, wanted: Seed) -> Seed:
        """Return the vhosts and users of the settings with which the shard's catalogue begins.
        Raises :class:`StoreUnusable` if the users cannot be known."""
        vhosts = dict.fromkeys((*wanted.vhosts, *self._vhosts))
        own = tuple(each for each in vhosts if not self.misplaced(proposed_namespace(each)))
        if self._users is None:
            return replace(wanted, vhosts=own)
        try:
            copied = await self._users.known()
        except UsersUnknown as error:
            # A node that knows them must lead: this one would never admit a client.
            raise StoreUnusable(f"cannot lead shard {self._shard}: {error}") from error
        known = {each.name for each in copied if isinstance(each, User)}
        users = tuple(each for each in wanted.users if each.name in known)
        return replace(wanted, vhosts=own, users=users, copied=copied)

    def check(self, catalogue: Catalogue, topics: Iterable[str]) -> None:
        """Raise :class:`ValueError` for anything stored here that belongs to another shard."""
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
        """Copy all users and tenants that were created elsewhere before this call. Raises
        :class:`.UsersUnknown`."""
        if self._users is not None:
            await self._users.catch_up()
        if self._tenants is not None:
            await self._tenants.copy()

    async def begin(self, catalogue: Catalogue, nursery: trio.Nursery) -> None:
        """Copy the known users into the catalogue, and later changes too."""
        self._nursery = nursery
        if (users := self._users) is not None:
            await users.begin(catalogue)
            nursery.start_soon(supervise, f"copying users to {self._shard}", users.follow)

    async def begin_tenants(self, context: BrokerContext, nursery: trio.Nursery) -> None:
        """Copy the tenants that were created elsewhere, and later changes too."""
        if (tenants := self._tenants) is not None:
            await tenants.begin(context)
            nursery.start_soon(supervise, f"copying tenants to {self._shard}", tenants.follow)

    async def load_definitions(self, catalogue: Catalogue, topology: Topology, path: Path) -> None:
        """Load the part of the settings' definitions that belongs here. Raises
        :class:`ValueError`."""
        own = OwnDefinitions(self._division, self._shard)
        await own.load(catalogue, topology, path)
        assert self._nursery is not None, "it was begun with"
        self._nursery.start_soon(
            supervise, f"definitions of {self._shard}", partial(own.grant_late, catalogue, topology)
        )


class OwnPlacements:
    """The placements of one shard's namespaces, for its broker. Namespaces of other shards are
    nowhere, even if this node leads them too. Other nodes' Pulsar addresses are left out, since
    clients name the shard that they want. Fulfils
    :class:`~arneb_core.api.nodes.placement.Placements`."""

    def __init__(self, leaders: Leaders, shard: str) -> None:
        self._leaders = leaders
        self._shard = shard

    def __repr__(self) -> str:
        return f"<OwnPlacements of {self._shard}>"

    def of(self, namespace: str) -> Placement:
        """Return where a namespace is served at this instant."""
        if self._leaders.division.shard_of(namespace) != self._shard:
            return NOBODY
        found = self._leaders.of_shard(self._shard)
        if isinstance(found, Elsewhere):
            without_urls = replace(found.addresses, pulsar="", pulsar_tls="")
            return replace(found, addresses=without_urls)
        return found

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever an answer may have changed."""
        self._leaders.listen(changed)

    def leave(self, changed: Callable[[], None]) -> None:
        """Stop calling ``changed``."""
        self._leaders.leave(changed)


def placements_of(leaders: Leaders, shard: str) -> Placements:
    """Return the placements for the broker of a shard."""
    return OwnPlacements(leaders, shard) if leaders.division.is_divided else leaders


def _namespace_of(topic: str) -> str:
    """Return a topic's namespace; empty for a frontend's internal topic."""
    scheme, found, rest = topic.partition("://")
    if not found or scheme not in _SCHEMES:
        return ""
    tenant, _, rest = rest.partition("/")
    return f"{tenant}/{rest.partition('/')[0]}"
