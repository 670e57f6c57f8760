"""The management API's site, assembled from what the servers of a broker share.

The rule: nothing is decided here; protocols have RabbitMQ's names.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from arneb import __version__
from arneb.http.management.figures.rates import Rates
from arneb.http.management.figures.totals import Totals
from arneb.http.management.sessions import Sessions
from arneb.http.management.site import ListeningPort, Site
from arneb.logs.audit_log import AuditLog
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.observed import ObservedCore
from arneb.settings.config import Address, Config
from arneb.settings.tls import expiring
from arneb_amqp.server.roster import Roster
from arneb_amqp.shovels.shovels import Shovels
from arneb_amqp.topology.topology import Topology
from arneb_core.access.authority import Authority
from arneb_core.access.catalogue import Catalogue
from arneb_core.api.process.clock import wall_clock_ms

if TYPE_CHECKING:
    from arneb.servers.handed_over import HandedOver
    from arneb_pulsar.services.context import BrokerContext

PROTOCOLS: Final[Mapping[str, str]] = {
    "amqp": "amqp",
    "amqp-tls": "amqp/ssl",
    "http": "http",
    "pulsar": "pulsar",
    "pulsar-tls": "pulsar/ssl",
    "http-tls": "https",
    "http-pulsar": "http/pulsar",
    "metrics": "http/prometheus",
    "http-pulsar-tls": "https/pulsar",
}
"""RabbitMQ's name of each listener's protocol, by the listener's name."""


class ManagedBroker(Protocol):
    """The parts of a broker that the management API uses."""

    config: Config
    alarms: Alarms

    @property
    def addresses(self) -> Mapping[str, Sequence[Address]]: ...

    @property
    def core(self) -> ObservedCore: ...

    @property
    def catalogue(self) -> Catalogue: ...

    @property
    def authority(self) -> Authority: ...

    @property
    def roster(self) -> Roster: ...

    @property
    def shovels(self) -> Shovels: ...

    @property
    def pulsar_context(self) -> "BrokerContext | None": ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def handed(self) -> "HandedOver | None": ...


def make_site(broker: ManagedBroker, topology: Topology) -> Site:
    """Return the site of a broker that serves AMQP."""
    config = broker.config
    ports = [
        ListeningPort(PROTOCOLS[name], address.host, address.port)
        for name, addresses in broker.addresses.items()
        for address in addresses
    ]
    certificates = [each.certificate for each in config.tls.values()]
    return Site(
        broker.core,
        broker.catalogue,
        topology,
        broker.roster,
        broker.authority,
        config.amqp,
        broker.alarms,
        Rates(now_ms=wall_clock_ms),
        Totals(),
        topology.broker_events.node,
        __version__,
        str(config.data_dir.absolute()),
        lambda: ports,
        partial(expiring, certificates),
        wall_clock_ms(),
        broker.shovels,
        Sessions(broker.catalogue),
        broker.pulsar_context,
        lambda: broker.audit.is_kept,
        None if broker.handed is None else broker.handed.membership,
        lambda: None if broker.handed is None else broker.handed.everywhere,
    )
