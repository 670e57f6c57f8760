"""Connection events: what is told of one connection, of its channels and of its consumers.

The rule: as in :mod:`arneb_amqp.topology.broker_events`, nothing is made while nobody wants to be
told. A connection that came before somebody did is told of when it goes.
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
from arneb_core.api.clock import wall_clock_ms

PROTOCOL: Final = "{0,9,1}"
"""AMQP's version, as RabbitMQ's events say it."""

LOGIN_TLS: Final = (
    "ssl_protocol", "ssl_cipher", "peer_cert_issuer", "peer_cert_subject", "peer_cert_validity",
)  # fmt: skip
"""What is told of TLS when somebody logs in, as far as there is something to tell."""


class ConnectionEvents:
    """What is told of one connection; the open channels that its session counts
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

    # Of the connection

    def logged_in(self, user: str, mechanism: str) -> None:
        """The client is who it says it is."""
        if self._events.wanted:
            self._events.emit("user.authentication.success", self._login(user, mechanism))

    def login_refused(self, user: str, mechanism: str, reason: str) -> None:
        """It is not."""
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
        """The session's state may be another one than it was."""
        if session.state is ConnectionState.OPEN and before is not ConnectionState.OPEN:
            self._opened(session)

    def _opened(self, session: Lifecycle) -> None:
        """The client is in a vhost."""
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
        """It has gone, or was never let in."""
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

    # Of its channels (arneb_amqp.session.context.ChannelCounts)

    def opening(self, user: str, id_: ChannelId) -> None:
        """One more channel is about to be opened. Raises 530 if there may be no more."""
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
        """These channels are not open any more."""
        self._occupancy.closed(user, len(ids))
        if self._events.wanted:
            by = {"user_who_performed_action": user}
            self._events.emit_all(
                ("channel.closed", {"pid": self._events.pid(self._id, id_), **by}) for id_ in ids
            )

    # Of its consumers

    def consuming(self, wanted: Consumption, user: str) -> None:
        """A consumer is there."""
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
        """It is gone."""
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
    """An address as RabbitMQ's events say it: a tuple of its numbers."""
    try:
        found = ip_address(address)
    except ValueError:
        return address  # a Unix socket has none
    if found.version == 4:
        return f"{{{','.join(map(str, found.packed))}}}"
    packed = found.packed
    words = (int.from_bytes(packed[at : at + 2]) for at in range(0, 16, 2))
    return f"{{{','.join(map(str, words))}}}"
