"""Connection events: events about one connection, its channels and its consumers.

The rule: as in :mod:`arneb_amqp.topology.broker_events`, no event is made while nobody listens. The
end of a connection is reported even if its beginning was not.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

from arneb_amqp.consumption import Consumption
from arneb_amqp.server.admission.occupancy import Occupancy
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.tls_fields import tls_fields
from arneb_amqp.session.connection.lifecycle import Lifecycle
from arneb_amqp.session.transitions import ConnectionState
from arneb_amqp.topology.broker_events import BrokerEvents, Shown
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.erlang import render_rows
from arneb_amqp.wire.tables import lookup_text
from arneb_core.access.acting import BY_ITSELF
from arneb_core.api.process.clock import wall_clock_ms

PROTOCOL: Final = "{0,9,1}"
"""AMQP's version as in RabbitMQ's events."""

LOGIN_TLS: Final = (
    "ssl_protocol", "ssl_cipher", "peer_cert_issuer", "peer_cert_subject", "peer_cert_validity",
)  # fmt: skip
"""TLS fields of a login event, if they have values."""


class ConnectionEvents:
    """The events of one connection; also counts the open channels of its session
    (:class:`.ChannelCounts`)."""

    __slots__ = ("_began_ms", "_events", "_id", "_occupancy", "_peer", "_vhost")

    def __init__(
        self, events: BrokerEvents, occupancy: Occupancy, id_: ConnectionId, peer: Remote
    ) -> None:
        self._events = events
        self._occupancy = occupancy
        self._id = id_
        self._peer = peer
        self._began_ms = wall_clock_ms()
        self._vhost = ""

    def __repr__(self) -> str:
        return f"<ConnectionEvents of {self._peer.name}>"

    # The connection

    def logged_in(self, user: str, mechanism: str) -> None:
        """Report a successful login."""
        if self._events.wanted:
            self._events.emit("user.authentication.success", self._login(user, mechanism))

    def login_refused(self, user: str, mechanism: str, reason: str) -> None:
        """Report a refused login."""
        if self._events.wanted:
            shown = {**self._login(user, mechanism), "error": reason}
            self._events.emit("user.authentication.failure", shown)

    def _login(self, user: str, mechanism: str) -> Shown:
        tls = tls_fields(self._peer)
        return {
            "connection_type": "network",
            "name": user,
            "host": in_erlang(self._peer.local[0]),
            "connection_name": self._peer.name,
            "peer_host": in_erlang(self._peer.address),
            "peer_port": self._peer.port,
            "protocol": PROTOCOL,
            "auth_mechanism": mechanism,
            "ssl": self._peer.secured,
            **{name: value for name in LOGIN_TLS if (value := tls[name])},
        }

    def state_is(self, session: Lifecycle, before: ConnectionState) -> None:
        """Report the connection once its session has become open."""
        if session.state is ConnectionState.OPEN and before is not ConnectionState.OPEN:
            self._opened(session)

    def _opened(self, session: Lifecycle) -> None:
        """Report that the client has entered a vhost."""
        self._vhost = session.rights.vhost
        if not self._events.wanted:
            return
        terms, peer, user = session.terms, self._peer, session.rights.principal.name
        shown = {
            **self._named(session),
            "type": "network",
            "port": peer.local[1],
            "peer_port": peer.port,
            "host": in_erlang(peer.local[0]),
            "peer_host": in_erlang(peer.address),
            "ssl": peer.secured,
            "auth_mechanism": terms.mechanism,
            **{name: value or "" for name, value in tls_fields(peer).items()},
            "protocol": PROTOCOL,
            "user": user,
            "vhost": self._vhost,
            "timeout": terms.heartbeat_s,
            "frame_max": terms.frame_bytes_max,
            "channel_max": terms.channel_max,
            "connected_at": self._began_ms,
            "user_who_performed_action": user,
        }
        self._events.emit("connection.created", shown)

    def closed(self, session: Lifecycle) -> None:
        """Report the end of a connection, if the client ever tried to log in."""
        if self._events.wanted and session.terms.mechanism:
            self._events.emit("connection.closed", self._named(session))

    def _named(self, session: Lifecycle) -> Shown:
        properties = session.terms.client_properties
        shown = {
            "pid": self._events.pid(self._id),
            "name": self._peer.name,
            "node": self._events.node,
            "client_properties": render_rows(properties),
        }
        given = lookup_text(properties, "connection_name")
        return shown if given is None else {**shown, "user_provided_name": given}

    # Its channels (arneb_amqp.session.context.ChannelCounts)

    def opening(self, user: str, id_: ChannelId) -> None:
        """Count and report a channel that is about to be opened. Raises 530 at the limit."""
        self._occupancy.opening(user)
        if self._events.wanted:
            shown = {
                "pid": self._events.pid(self._id, id_),
                "name": f"{self._peer.name} ({id_})",
                "connection": self._events.pid(self._id),
                "number": id_,
                "user": user,
                "vhost": self._vhost,
                "user_who_performed_action": user,
            }
            self._events.emit("channel.created", shown)

    def ended(self, user: str, ids: Collection[ChannelId]) -> None:
        """Uncount and report closed channels."""
        self._occupancy.closed(user, len(ids))
        if self._events.wanted:
            by = {"user_who_performed_action": user}
            self._events.emit_all(
                ("channel.closed", {"pid": self._events.pid(self._id, id_), **by}) for id_ in ids
            )

    # Its consumers

    def consuming(self, wanted: Consumption, user: str) -> None:
        """Report a new consumer."""
        if self._events.wanted:
            shown = {
                **self._consumer(wanted),
                "exclusive": wanted.exclusive,
                "ack_required": not wanted.no_ack,
                "prefetch_count": wanted.windows[0].limit,
                "arguments": render_rows(wanted.arguments),
                "user_who_performed_action": user,
            }
            self._events.emit("consumer.created", shown)

    def consumed(self, wanted: Consumption, user: str = BY_ITSELF) -> None:
        """Report a consumer that is gone."""
        if self._events.wanted:
            shown = {**self._consumer(wanted), "user_who_performed_action": user}
            self._events.emit("consumer.deleted", shown)

    def _consumer(self, wanted: Consumption) -> Shown:
        return {
            "consumer_tag": wanted.tag,
            "channel": self._events.pid(self._id, wanted.channel),
            "queue": wanted.queue,
            "vhost": self._vhost,
        }


def in_erlang(address: str) -> str:
    """Return an address as in RabbitMQ's events: a tuple of its numbers."""
    try:
        found = ip_address(address)
    except ValueError:
        return address  # a Unix socket has no address
    if found.version == 4:
        return f"{{{','.join(map(str, found.packed))}}}"
    packed = found.packed
    words = (int.from_bytes(packed[at : at + 2]) for at in range(0, 16, 2))
    return f"{{{','.join(map(str, words))}}}"
