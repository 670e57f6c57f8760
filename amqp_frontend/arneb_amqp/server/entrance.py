"""The entrance: who comes in, and into which vhost.

The rule: one entrance a server, and whoever is behind it has a :class:`.Principal` and a place in
the counts. What is checked, and in which order, is RabbitMQ's; a client that is refused a vhost
hears which limit or right it was, and one that is refused a login hears nothing of the reason.
"""

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import not_allowed
from arneb_amqp.server.certificates import NoName, name_of
from arneb_amqp.server.connection_events import ConnectionEvents
from arneb_amqp.server.occupancy import Occupancy, Place, refused
from arneb_amqp.server.remote import Remote
from arneb_amqp.session.connection.handshake import BY_PASSWORD, EXTERNAL, login_refused
from arneb_amqp.session.context import Entered
from arneb_amqp.session.effects import Enter, LogIn, Renew
from arneb_amqp.session.rights import Rights
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.access.authority import Authority
from arneb_core.access.principals import Credentials, LoginRefused, Principal


def mechanisms_for(peer: Remote, external: bool) -> tuple[str, ...]:
    """How such a client may log in. As in RabbitMQ, whoever has no certificate hears by a refusal
    that he needs one."""
    if external and peer.secured:
        return (*BY_PASSWORD, EXTERNAL)
    return BY_PASSWORD


class Entrance:
    """What every connection passes."""

    def __init__(
        self, authority: Authority, topology: Topology, config: AmqpConfig, occupancy: Occupancy
    ) -> None:
        self._authority = authority
        self._topology = topology
        self._config = config
        self.occupancy = occupancy

    def __repr__(self) -> str:
        return f"<Entrance of {self.occupancy!r}>"

    async def log_in(self, login: LogIn, peer: Remote, told: ConnectionEvents) -> Principal:
        """Who the client is. Raises 403."""
        name = login.name
        try:
            if login.password is None:
                name = self._certified(peer)
            principal = await self._authority.log_in(
                Credentials(name, login.password, peer.address, peer.loopback, login.mechanism)
            )
        except LoginRefused as error:
            told.login_refused(name, login.mechanism, str(error))
            raise login_refused(login.mechanism) from None
        told.logged_in(principal.name, login.mechanism)
        return principal

    def _certified(self, peer: Remote) -> str:
        config = self._config
        try:
            if peer.certificate is None:
                raise NoName("the client has shown no certificate that was verified")
            return name_of(
                peer.certificate, config.certificate_login, config.certificate_san_type,
                config.certificate_san_index,
            )  # fmt: skip
        except NoName as error:
            self._authority.refused("EXTERNAL", peer.address, str(error))
            raise LoginRefused(str(error)) from None

    async def renew(self, order: Renew) -> None:
        """Take another secret of somebody who is in. Raises 530."""
        try:
            await order.principal.verdicts.renew(order.principal.name, order.secret)
        except LoginRefused as error:
            self._authority.refused("update-secret", order.principal.name, str(error))
            raise not_allowed("New secret was refused by one of the backends") from None

    async def enter(self, order: Enter, id_: ConnectionId, peer: Remote) -> tuple[Vhost, Entered]:
        """Let a client into a vhost. Raises 530."""
        principal, occupancy = order.principal, self.occupancy
        place = Place(principal.name, order.vhost)
        occupancy.check_node()
        vhost = self._topology.vhost(order.vhost)
        if vhost is None:
            raise refused(f"vhost {order.vhost} not found")
        occupancy.check_place(place)
        # Counted before it is asked for, so that others who ask meanwhile count it.
        occupancy.enter(id_, place)
        try:
            admitted = await principal.verdicts.admits(order.vhost, peer.address)
            if not admitted or self._topology.vhost(order.vhost) is not vhost:
                raise refused(f"access to vhost '{order.vhost}' refused for user '{place.user}'")
        except BaseException:
            occupancy.leave(id_)
            raise
        return vhost, Entered(vhost, Rights(principal, order.vhost))
