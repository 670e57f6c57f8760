"""The reception: shakes hands with clients of whom nobody knows yet which node serves them.

The rule: it says and hears what a connection does until ``connection.open``, by the same session,
and then knows who the client is, what was agreed on and which vhost it wants. Whoever is given as
``Onward`` has the client served from there on, here or elsewhere; the reception knows neither the
core nor a topology, so that a node without either can receive clients.
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
from arneb_core.api.listening import serve_listeners
from arneb_core.api.placement import NotServed
from arneb_core.api.supervision import shielded_nursery
from arneb_core.api.tls_records import TlsRecords

LOGGER: Final = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"""How long a client that was told goodbye is read before its socket is closed, as a connection's
is."""

GOODBYE_S: Final = 1.0
"""How long a stop waits for clients that shake hands to leave."""


NONE_WAITS: Final = 0
"""There is room on a link when the kernel has taken all: what is carried is not gathered here."""


class _Unnoticed:
    """Nobody is told of logins, nor counts channels: there is no broker here that does."""

    def logged_in(self, user: str, mechanism: str) -> None:
        """The client is let in."""

    def login_refused(self, user: str, mechanism: str, reason: str) -> None:
        """It is not; the log says so."""

    def opening(self, user: str, id_: ChannelId) -> None:
        """No channel is opened before a client goes on."""

    def ended(self, user: str, ids: object) -> None:
        """None was."""


def _no_name() -> str:
    raise AssertionError("no queue is declared before a client goes on")


class ReceivedClient:
    """A client that has shaken hands, on its way to who serves it."""

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
        """What it has said behind ``connection.open``."""
        self._link = link
        self._ends = ends
        self.is_handed_over = False

    def __repr__(self) -> str:
        return f"<ReceivedClient {self.admission.user!r}, {self.remote.name}>"

    @property
    def vhost(self) -> str:
        """Where it wants to go."""
        return self.admission.vhost

    @property
    def name(self) -> str:
        """Where it comes from, and what it reached."""
        return self.remote.name

    @property
    def has_secret(self) -> bool:
        """Its document tells a secret, which none but its node may read."""
        return self.admission.secret is not None

    @property
    def document(self) -> bytes:
        """All that another node needs to go on with it but the bytes."""
        return encode_admission(self.admission, self.remote)

    @property
    def stream(self) -> LinkStream:
        """Its bytes, for whoever carries them."""
        return LinkStream(self._link)

    async def hand_over(self) -> tuple[socket.socket, TlsRecords | None]:
        """Its socket, which is the caller's from now on, when all is written that was to be."""
        await self._link.room()
        self.is_handed_over = True
        return self._ends


class Onward(Protocol):
    """Has clients served that were received."""

    async def go_on(self, client: ReceivedClient) -> None:
        """Serve one until it goes. Raises :class:`NotServed`, before anything of it was touched."""
        ...

    def say_goodbye(self) -> None:
        """Have those leave that are served elsewhere: this node stops."""
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
        """Receive one client, and have it served until it goes."""
        received = _Received(self, self._settings, remote, (sock, records), self._nursery)
        self._received[received] = None
        try:
            await received.run()
        except Exception:
            LOGGER.exception("closing a connection of %s after an internal error", remote.name)
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
    """One client until it goes on."""

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
        self._link = link_of(*ends, nursery, NONE_WAITS, _nobody_waits)
        self._client: ReceivedClient | None = None
        self._disconnect: Disconnect | None = None

    async def run(self) -> None:
        """Until the client goes, or whoever has it served is done."""
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
        """The node stops."""
        if self._client is None:
            self._session.handle(Shutdown(), *instants())
            self._link.abort()

    def close(self) -> None:
        """The client is gone, or another has its socket."""
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
                        refusal = await self._go_on(effect)
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
        """Who the client is; None: the time for its handshake is over."""
        logins = self._reception.logins
        with trio.move_on_at(self._session.next_timer()):
            try:
                return RequestDone(await logins.log_in(order, self._remote, _Unnoticed()))
            except AmqpError as error:
                return RequestFailed(error)
        return None

    async def _go_on(self, order: Enter) -> str | None:
        """Have the client served; or why nobody does."""
        principal, terms = order.principal, self._session.terms
        admission = Admission(principal.name, principal.secret, terms, order.vhost)
        if data := self._session.data_to_send(trio.current_time()):
            self._link.send(data)
        client = ReceivedClient(admission, self._remote, self._link, self._ends, self._opening.rest)
        self._client = client
        try:
            await self._reception.onward.go_on(client)
        except NotServed as error:
            self._client = None
            return str(error)
        return None

    async def _linger(self, order: Disconnect) -> None:
        """All is said: give the client the time to take it."""
        if order.reset:
            self._link.reset()
            return
        if not order.peer_first:
            self._link.finish()
        with trio.move_on_after(LINGER_S):
            while not self._link.broken and await self._link.receive():
                pass


def _nobody_waits() -> None:
    """A reception says little, and waits for its answer."""


async def serve_reception(
    listeners: Sequence[trio.abc.Listener[Any]],
    onward: Onward,
    settings: Adjustable,
    authority: Authority,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Receive the clients of AMQP that come to ``listeners``, until cancelled."""
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
