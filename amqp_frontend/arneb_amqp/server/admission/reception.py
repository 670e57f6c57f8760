"""The reception: the handshake with clients before it is known which node serves them.

The rule: it behaves like a connection until ``connection.open``, with the same session, and then
knows the client, the negotiated parameters and the vhost. Its ``Onward`` has the client served from
there on, here or on another node; the reception knows neither the core nor a topology, so a node
without either can accept clients.
"""

import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NoReturn, Protocol

import trio

from arneb_amqp.config import Adjustable
from arneb_amqp.errors import AmqpError, connection_forced
from arneb_amqp.server.admission.admission_document import encode_admission
from arneb_amqp.server.admission.logins import Logins, mechanisms_for
from arneb_amqp.server.transport.accepting import serve_accepted
from arneb_amqp.server.transport.link import Link
from arneb_amqp.server.transport.link_stream import LinkStream
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.secured_link import link_of
from arneb_amqp.server.transport.timers import instants
from arneb_amqp.session.connection.admission import Admission
from arneb_amqp.session.connection.session import ConnectionSession
from arneb_amqp.session.context import BrokerContext
from arneb_amqp.session.effects import Disconnect, EndConnection, Enter, LogIn
from arneb_amqp.session.events import RequestDone, RequestFailed, Shutdown
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.opening import OpeningBytes
from arneb_core.access.authority import Authority
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.placement import NotServed
from arneb_core.api.process.supervision import shielded_nursery

logger = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"""How long a client that was told goodbye is read before its socket is closed, as with a
connection."""

GOODBYE_S: Final = 1.0
"""How long a stop waits for clients that are shaking hands to leave."""


NONE_WAITS: Final = 0
"""The low mark of links: there is room once the kernel has taken everything, so nothing accumulates
here."""


class _Unnoticed:
    """Ignores logins and channels: no broker here counts them."""

    def logged_in(self, user: str, mechanism: str) -> None:
        """Do nothing."""

    def login_refused(self, user: str, mechanism: str, reason: str) -> None:
        """Do nothing: the log says so."""

    def opening(self, user: str, id_: ChannelId) -> None:
        """Do nothing: no channel is opened before a client continues."""

    def ended(self, user: str, ids: object) -> None:
        """Do nothing: none was opened."""


def _no_name() -> str:
    raise AssertionError("no queue is declared before a client goes on")


class ReceivedClient:
    """A client that has shaken hands, on its way to its server."""

    def __init__(
        self,
        admission: Admission,
        remote: Remote,
        link: Link,
        ends: tuple[socket.socket, TlsRecords | None],
        unread: bytes,
    ) -> None:
        self.admission = admission
        self.remote = remote
        self.unread = unread
        """Its input after ``connection.open``."""
        self._link = link
        self._ends = ends
        self.is_handed_over = False

    def __repr__(self) -> str:
        return f"<ReceivedClient {self.admission.user!r}, {self.remote.name}>"

    @property
    def vhost(self) -> str:
        """The vhost it wants to enter."""
        return self.admission.vhost

    @property
    def name(self) -> str:
        """Both ends of its connection."""
        return self.remote.name

    @property
    def has_secret(self) -> bool:
        """Whether its document contains a secret, which only its node may read."""
        return self.admission.secret is not None

    @property
    def document(self) -> bytes:
        """Everything that another node needs to serve it, except its bytes."""
        return encode_admission(self.admission, self.remote)

    @property
    def stream(self) -> LinkStream:
        """Its bytes, for their carrier."""
        return LinkStream(self._link)

    async def hand_over(self) -> tuple[socket.socket, TlsRecords | None]:
        """Return its socket once everything is written; it is the caller's from now on."""
        await self._link.room()
        self.is_handed_over = True
        return self._ends


class Onward(Protocol):
    """Has received clients served."""

    async def pass_on(self, client: ReceivedClient) -> None:
        """Serve a client until it leaves. Raises :class:`NotServed` before anything of it was
        touched."""
        ...

    def say_goodbye(self) -> None:
        """Make clients that are served elsewhere leave: this node stops."""
        ...


class Reception:
    """Receives the clients of one node."""

    def __init__(
        self, settings: Adjustable, authority: Authority, onward: Onward, nursery: trio.Nursery
    ) -> None:
        self._settings = settings
        self.logins = Logins(authority, settings.now)
        self.onward = onward
        self._nursery = nursery
        self._received: dict[_Received, None] = {}
        self._gone = trio.Event()

    def __repr__(self) -> str:
        return f"<Reception of {len(self._received)} clients>"

    async def serve(
        self, remote: Remote, sock: socket.socket, records: TlsRecords | None = None
    ) -> None:
        """Receive one client, and have it served until it leaves."""
        received = _Received(self, self._settings, remote, (sock, records), self._nursery)
        self._received[received] = None
        try:
            await received.run()
        except Exception:
            logger.exception("closing a connection of %s after an internal error", remote.name)
        finally:
            received.close()
            del self._received[received]
            if not self._received:
                self._gone.set()

    async def say_goodbye(self) -> None:
        """Tell the clients that have not gone on that the node stops."""
        with trio.move_on_after(GOODBYE_S):
            while self._received:
                self._gone = trio.Event()
                self.onward.say_goodbye()
                for each in list(self._received):
                    each.stop()
                await self._gone.wait()


class _Received:
    """One client until it continues."""

    def __init__(
        self,
        reception: Reception,
        settings: Adjustable,
        remote: Remote,
        ends: tuple[socket.socket, TlsRecords | None],
        nursery: trio.Nursery,
    ) -> None:
        config = settings.now
        self._reception = reception
        self._remote = remote
        self._ends = ends
        mechanisms = mechanisms_for(remote, config.external_login)
        broker = BrokerContext(config, _no_name, _Unnoticed(), mechanisms)
        self._session = ConnectionSession(broker, trio.current_time())
        self._opening = OpeningBytes()
        self._link = link_of(*ends, nursery, NONE_WAITS, _do_nothing)
        self._client: ReceivedClient | None = None
        self._disconnect: Disconnect | None = None

    async def run(self) -> None:
        """Run until the client leaves, or its service ends."""
        session, link = self._session, self._link
        while self._client is None:
            if data := session.data_to_send(trio.current_time()):
                link.send(data)
            if self._disconnect is not None:
                await self._linger(self._disconnect)
                return
            with trio.move_on_at(session.next_timer()) as timer:
                if session.blocked:
                    await trio.sleep_forever()
                data = await link.receive()
            if timer.cancelled_caught:
                session.handle_timer(trio.current_time())
            elif not data:
                return
            else:
                link.acknowledge_now()
                if not self._opening.is_open:
                    self._opening.receive(data)
                session.receive_data(data, *instants())
            await self._carry_out()

    def stop(self) -> None:
        """Tell the client that the node stops."""
        if self._client is None:
            self._session.handle(Shutdown(), *instants())
            self._link.abort()

    def close(self) -> None:
        """Clean up: the client is gone, or its socket was handed over."""
        if self._client is None or not self._client.is_handed_over:
            self._link.close()
        self._session.end()

    async def _carry_out(self) -> None:
        session = self._session
        while effects := session.take_effects():
            for effect in effects:
                match effect:
                    case LogIn():
                        found = await self._log_in(effect)
                        if found is None:
                            session.handle_timer(trio.current_time())
                            continue
                        event = found
                    case Enter():
                        refusal = await self._pass_on(effect)
                        if refusal is None:
                            return
                        event = RequestFailed(connection_forced(refusal))
                    case EndConnection():
                        event = RequestDone(None)
                    case Disconnect():
                        self._disconnect = effect
                        continue
                    case _:
                        raise AssertionError(f"{effect} comes after connection.open")
                session.handle(event, *instants())

    async def _log_in(self, order: LogIn) -> RequestDone | RequestFailed | None:
        """Authenticate the client; None: its handshake has timed out."""
        logins = self._reception.logins
        with trio.move_on_at(self._session.next_timer()):
            try:
                return RequestDone(await logins.log_in(order, self._remote, _Unnoticed()))
            except AmqpError as error:
                return RequestFailed(error)
        return None

    async def _pass_on(self, order: Enter) -> str | None:
        """Have the client served; else return why it is not."""
        principal, terms = order.principal, self._session.terms
        admission = Admission(principal.name, principal.secret, terms, order.vhost)
        if data := self._session.data_to_send(trio.current_time()):
            self._link.send(data)
        client = ReceivedClient(admission, self._remote, self._link, self._ends, self._opening.rest)
        self._client = client
        try:
            await self._reception.onward.pass_on(client)
        except NotServed as error:
            self._client = None
            return str(error)
        return None

    async def _linger(self, order: Disconnect) -> None:
        """Give the client time to read the last bytes."""
        if order.reset:
            self._link.reset()
            return
        if not order.peer_first:
            self._link.finish()
        with trio.move_on_after(LINGER_S):
            while not self._link.broken and await self._link.receive():
                pass


def _do_nothing() -> None:
    """Do nothing: a reception writes little, and waits for the answer."""


async def serve_reception(
    listeners: Sequence[trio.abc.Listener[Any]],
    onward: Onward,
    settings: Adjustable,
    authority: Authority,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Receive AMQP clients on ``listeners`` until cancelled."""
    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(shielded_nursery)
        reception = Reception(settings, authority, onward, nursery)
        try:
            await serve_listeners(
                partial(serve_accepted, reception.serve, settings.now),
                listeners,
                handler_nursery=nursery,
                task_status=task_status,
            )
        finally:
            with trio.CancelScope(shield=True):
                await reception.say_goodbye()
                nursery.cancel_scope.cancel()
    raise AssertionError("serve_listeners never returns")
