"""The site: everything handlers may ask, of one broker.

The rule: state is read at the time of the call; long work is split into turns by
:attr:`Site.pause`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from arneb.http.management.figures.rates import Rates
from arneb.http.management.figures.totals import Totals
from arneb.http.management.lists.ages import Ages
from arneb.http.management.lists.ordering import Orders
from arneb.http.management.lists.queues_by_name import QueuesByName
from arneb.http.management.lists.rows import AllRows
from arneb.http.management.requests.calls import Call, Document, not_authorised, not_found
from arneb.http.management.requests.rules import has_access
from arneb.http.management.sessions import Sessions
from arneb.http.management.watchers import Watchers
from arneb.http.server.long_answers import between_pieces
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.observed import ObservedCore
from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.operations.connectionless import Actor
from arneb_amqp.server.roster import Roster
from arneb_amqp.shovels.shovels import Shovels
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.access.authority import Authority
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.internal import InternalVerdicts
from arneb_core.access.principals import Principal
from arneb_core.access.records import GlobalParameter, User

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from arneb_pulsar.services.context import BrokerContext

RABBITMQ_VERSION: Final = "3.13.7"
"""The RabbitMQ version whose API this is; tools compare it."""

CLUSTER_NAME: Final = "cluster_name"


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """An open port, in RabbitMQ's words."""

    protocol: str
    address: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One broker as operators see it."""

    core: ObservedCore
    catalogue: Catalogue
    topology: Topology
    roster: Roster
    authority: Authority
    config: AmqpConfig
    alarms: Alarms
    rates: Rates
    totals: Totals
    node: str
    version: str
    """Arneb's version."""
    data_dir: str
    ports: Callable[[], Sequence[ListeningPort]]
    expiring: Callable[[timedelta], Sequence[str]]
    """Certificate files that expire within a time."""
    started_ms: int
    shovels: Shovels
    sessions: Sessions
    pulsar: "BrokerContext | None" = None
    """Shared by all Pulsar connections, if that protocol is served."""
    is_audited: Callable[[], bool] = bool
    """Whether changes are audited."""
    membership: Callable[[], Document] | None = None
    """The state of this node in its cluster, if it is in one."""
    everywhere: "Callable[[], ASGIApp | None]" = lambda: None
    """Answers for all shards of a cluster, on the broker of the first of several shards."""
    pause: Callable[[], Awaitable[None]] = between_pieces
    orders: Orders = field(default_factory=Orders)
    by_name: QueuesByName = field(default_factory=QueuesByName)
    watchers: Watchers = field(default_factory=Watchers)
    ages: Ages = field(default_factory=Ages)
    rows: AllRows = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", AllRows(self.by_name, self.pause))

    @property
    def cluster_name(self) -> str:
        """The cluster's name: as set at run time, else as configured."""
        row = self.catalogue.get(GlobalParameter, CLUSTER_NAME)
        return row.value if row and isinstance(row.value, str) else self.config.cluster_name

    def vhost(self, name: str) -> Vhost:
        """Return a vhost by name. Raises 404."""
        vhost = self.topology.vhost(name)
        if vhost is None:
            raise not_found()
        return vhost

    def vhost_of(self, call: Call) -> Vhost:
        """Return the vhost in the path. Raises 404."""
        return self.vhost(call.params["vhost"])

    def vhost_for_change(self, call: Call) -> Vhost:
        """Return the vhost in the path of a change. Raises 404 with RabbitMQ's text for changes."""
        vhost = self.topology.vhost(call.params["vhost"])
        if vhost is None:
            raise not_found("vhost_not_found", "not_found")
        return vhost

    async def vhosts_for(self, call: Call) -> list[Vhost]:
        """Return the vhost in the path, or all that the caller has access to."""
        if "vhost" in call.params:
            return [self.vhost_of(call)]
        wanted = call.headers.get("x-vhost")
        return [each async for each in self._visible(call) if wanted is None or each.name == wanted]

    async def _visible(self, call: Call) -> AsyncIterator[Vhost]:
        for vhost in sorted(self.topology.vhosts, key=lambda each: each.name):
            if self.catalogue.vhost(vhost.name) and await has_access(call, vhost.name):
                yield vhost

    def known(self, name: str) -> Principal | None:
        """Return the catalogue's user for whom another node vouches."""
        user = self.catalogue.get(User, name)
        if user is None:
            return None
        verdicts = InternalVerdicts(self.catalogue.tables, name)
        return Principal(name, verdicts, frozenset(user.tags))

    async def acting(self, call: Call) -> Actor:
        """Return the caller as an actor in the path's vhost. Raises 404 and 401."""
        return await self.acting_in(self.vhost_of(call), call.caller, call.address)

    async def acting_in(self, vhost: Vhost, caller: Principal, address: str) -> Actor:
        """Return a user as an actor in a vhost. Raises 401."""
        if not await caller.verdicts.admits(vhost.name, address):
            raise not_authorised("Access refused.")
        return Actor(self.core, self.topology, vhost, caller)
