"""The entrance: admits clients to vhosts.

The rule: one entrance per server; a client that it admits has a :class:`.Principal` and is counted.
The checks and their order are RabbitMQ's; a client that is refused a vhost learns which limit or
right was missing.
"""

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.admission.logins import Logins
from arneb_amqp.server.admission.occupancy import Occupancy, Occupant, refused
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.context import Entered
from arneb_amqp.session.effects import Enter
from arneb_amqp.session.rights import Rights
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.access.authority import Authority


class Entrance(Logins):
    """The entrance that every connection passes."""

    def __init__(
        self, authority: Authority, topology: Topology, config: AmqpConfig, occupancy: Occupancy
    ) -> None:
        super().__init__(authority, config)
        self._topology = topology
        self.occupancy = occupancy

    def __repr__(self) -> str:
        return f"<Entrance of {self.occupancy!r}>"

    async def enter(self, order: Enter, id_: ConnectionId, peer: Remote) -> tuple[Vhost, Entered]:
        """Let a client into a vhost. Raises 530."""
        principal, occupancy = order.principal, self.occupancy
        occupant = Occupant(principal.name, order.vhost)
        occupancy.check_node()
        vhost = self._topology.vhost(order.vhost)
        if vhost is None:
            raise refused(f"vhost {order.vhost} not found")
        occupancy.check(occupant)
        # Counted before the verdict, so that concurrent entries see it.
        occupancy.enter(id_, occupant)
        try:
            admitted = await principal.verdicts.admits(order.vhost, peer.address)
            if not admitted or self._topology.vhost(order.vhost) is not vhost:
                raise refused(f"access to vhost '{order.vhost}' refused for user '{occupant.user}'")
        except BaseException:
            occupancy.leave(id_)
            raise
        return vhost, Entered(vhost, Rights(principal, order.vhost))
