"""Onward: passes clients received here on to the node that leads.

The rule: the leader is asked, not guessed. A client waits a little while no node leads or a leader
is not ready; then it reaches the leader, or gets a one-sentence reason why not. It is dropped at
once when another node becomes leader. Nothing of a client is touched before another node has
accepted it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import trio

from arneb_cluster.routing.calling import NotTaken, call
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.relay import Kind
from arneb_cluster.routing.relaying import Carried, Relays
from arneb_core.api.nodes.placement import (
    Elsewhere,
    Here,
    Nobody,
    NotServed,
    Placements,
    placement_within,
)

LEADER_WAIT_S: Final = 8.0
"""How long a client waits for a leader: most takeovers are shorter, and clients give up later."""

ASK_AGAIN_S: Final = 0.2
"""The wait before a leader that refused a client is asked again: all clients of a node ask at
once."""

CHANGED: Final = "another node serves it now"
STOPPED: Final = "broker forced connection closure with reason 'shutdown'"
"""The text that a stopping broker sends."""


class Received(Protocol):
    """A client whose destination is known."""

    @property
    def name(self) -> str:
        """Both ends of its connection."""
        ...

    @property
    def has_secret(self) -> bool:
        """Whether its document contains a secret."""
        ...

    @property
    def document(self) -> bytes:
        """Everything that another node needs to serve it, except its bytes."""
        ...

    @property
    def stream(self) -> trio.abc.HalfCloseableStream:
        """Its bytes."""
        ...

    @property
    def unread(self) -> bytes:
        """Its input so far."""
        ...


ClientT = TypeVar("ClientT", bound=Received)


@dataclass(frozen=True, slots=True)
class Clients(Generic[ClientT]):
    """The common properties of the clients of one kind."""

    kind: str
    """Its name at the internal port."""
    relayed: Kind
    where_to: Callable[[ClientT], tuple[str, str]]
    """Returns the namespace that a client wants, and the client's word for it."""
    serve_here: Callable[[str, ClientT], Awaitable[None]]
    """Serves a client of a namespace until it leaves. Raises :class:`NotServed`."""


class OnwardByLeader(Generic[ClientT]):
    """Passes clients of one kind on: those of namespaces led by this node are served here, others
    elsewhere."""

    def __init__(
        self,
        settings: InternalSettings,
        placements: Placements,
        relays: Relays,
        clients: Clients[ClientT],
        wait_s: float = LEADER_WAIT_S,
    ) -> None:
        self._settings = settings
        self._placements = placements
        self.relays = relays
        self._clients = clients
        self._wait_s = wait_s
        self._where: dict[Carried, tuple[str, Elsewhere]] = {}
        placements.listen(self._changed)

    def __repr__(self) -> str:
        return f"<OnwardByLeader, {self.relays!r}>"

    async def pass_on(self, client: ClientT) -> None:
        """Have a client served until it leaves. Raises :class:`NotServed`."""
        namespace, wanted = self._clients.where_to(client)
        until = trio.current_time() + self._wait_s
        while True:
            wait_s = max(0.0, until - trio.current_time())
            placement = await placement_within(self._placements, namespace, wait_s)
            try:
                match placement:
                    case Here():
                        return await self._clients.serve_here(namespace, client)
                    case Elsewhere():
                        return await self._carry(namespace, placement, client)
                    case Nobody(is_unheard):
                        if is_unheard:
                            raise NotServed(f"the log of {wanted} does not answer at the moment")
                        raise NotServed(f"no node leads {wanted} at the moment")
            except NotTaken:
                # The leader may know before we do that it no longer leads, or may be about to admit
                # clients: it announces its leadership before it serves.
                now = trio.current_time()
                if now >= until:
                    raise
                await self._other_than(placement, namespace, min(until, now + ASK_AGAIN_S))

    def say_goodbye(self) -> None:
        """Inform the relayed clients that the node stops."""
        for carried in self._where:
            carried.lose(STOPPED)

    async def _carry(self, namespace: str, placement: Elsewhere, client: ClientT) -> None:
        settings, leader = self._settings, placement.addresses
        if not leader.internal:
            raise NotServed(f"node '{leader.node}' has no internal port")
        if client.has_secret and settings.tls is None:
            text = f"a login by a token reaches node '{leader.node}' over TLS only"
            raise NotServed(text)
        with self.relays.place():
            clients = self._clients
            called = await call(settings, leader, Request(clients.kind, namespace, client.document))
            carried = Carried(client.stream, called.stream, client.name, clients.relayed)
            self._where[carried] = namespace, placement
            try:
                if self._placements.of(namespace) != placement:
                    carried.lose(CHANGED)  # it changed during the call
                await self.relays.carry(carried, client.unread, called.early)
            finally:
                del self._where[carried]

    async def _other_than(self, placement: object, namespace: str, until: float) -> None:
        """Wait for another answer, at most ``until`` then."""
        changed = trio.Event()

        def note() -> None:
            if self._placements.of(namespace) != placement:
                changed.set()

        self._placements.listen(note)
        try:
            note()
            with trio.move_on_at(until):
                await changed.wait()
        finally:
            self._placements.leave(note)

    def _changed(self) -> None:
        """Drop clients whose leader has changed."""
        for carried, (namespace, placement) in list(self._where.items()):
            if self._placements.of(namespace) != placement:
                carried.lose(CHANGED)
