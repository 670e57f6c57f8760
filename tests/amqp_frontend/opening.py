"""Opens a topology as a broker does, but without a broker, and acts as one of its connections."""

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.admission.entrance import Entrance
from arneb_amqp.server.admission.occupancy import Occupancy
from arneb_amqp.server.context import ConnectionContext, CoreEvents
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.effects import Enter
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.seeding import open_catalogue
from arneb_amqp.topology.topology import Topology
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalVerdicts
from arneb_core.access.principals import Principal
from arneb_core.access.tables import Tables
from arneb_core.api.core import Core


async def open_topology(core: Core, config: AmqpConfig | None = None) -> Topology:
    """The vhosts in the store of ``core``; on the first start, those of the settings."""
    settings = config or AmqpConfig()
    return await Topology.open(core, await open_catalogue(core, settings), settings)


async def entered(
    core: Core, topology: Topology, owner: ConnectionId, events: CoreEvents
) -> ConnectionContext:
    """A connection of the user guest, in the vhost ``/``."""
    tables: Tables = topology.catalogue.tables
    settings = AmqpConfig()
    occupancy = Occupancy(tables, settings)
    entrance = Entrance(Authority([], lambda _: False), topology, settings, occupancy)
    context = ConnectionContext(core, topology, entrance, owner, Remote(), events)
    await context.enter(Enter("/", Principal("guest", InternalVerdicts(tables, "guest"))))
    return context
