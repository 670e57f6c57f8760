"""Relaying: the relays of this node with their sockets.

The rule: two tasks per client. One reads the client and is the only writer to the leader, the other
the reverse; each sends what it has received before it receives again. So a client that does not
read stops its leader, a leader that does not read stops its client, and at most one read of each is
held here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from arneb_cluster.routing.relay import (
    LEADER_GONE,
    Effect,
    EndToClient,
    EndToLeader,
    Kind,
    Relay,
    RelayState,
    ToClient,
    ToLeader,
)
from arneb_core.api.nodes.placement import NotServed

CARRIED_MAX: Final = 10_000
"""Clients carried at once: each has two sockets and holds at most two reads."""

RECEIVE_BYTES_MAX: Final = 64 * 1024
"""Bytes of one read, each way. Larger reads gain nothing: the other node is the bottleneck."""

FAREWELL_S: Final = 2.0
"""How long a client may take to answer the close that reports its leader's loss, and to close its
socket once it gets nothing more."""


class Carried:
    """One carried client."""

    def __init__(
        self,
        client: trio.abc.HalfCloseableStream,
        leader: trio.abc.HalfCloseableStream,
        name: str,
        kind: Kind = Kind.FRAMED,
    ) -> None:
        self.name = name
        """Both ends of its connection."""
        self.relay = Relay(kind)
        self._client = client
        self._leader = leader
        self._lost = ""
        """Why the leader is ignored from now on."""
        self._is_deaf = False
        """Whether nothing more is sent to the leader."""
        self._hearing = trio.CancelScope()
        """The scope of the current receive from the leader."""
        self._saying = trio.CancelScope()
        """The scope of the current send to the leader."""
        self._all = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Carried {self.name}, {self.relay!r}>"

    async def run(self, unread: bytes, early: bytes) -> None:
        """Carry until both sides are done, then close the leader's side. ``unread`` is the client's
        input so far, and ``early`` the leader's."""
        try:
            with self._all:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._carry_up, unread)
                    await self._carry_down(early)
        finally:
            await trio.aclose_forcefully(self._leader)

    def lose(self, reason: str) -> None:
        """Ignore the leader from now on."""
        self._lost = self._lost or reason
        self._hearing.cancel()
        self._hush()

    # Up

    async def _carry_up(self, data: bytes) -> None:
        """Pass the client's bytes to the leader."""
        relay = self.relay
        effects = relay.from_client(data) if data else []
        while await self._say(effects):
            try:
                data = bytes(await self._client.receive_some(RECEIVE_BYTES_MAX))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            if not data:
                await self._say(relay.client_ended())
                break
            effects = relay.from_client(data)
        if relay.state is not RelayState.CARRYING:
            self._all.cancel()

    async def _say(self, effects: list[Effect]) -> bool:
        """Send effects to the leader, if possible; return whether to continue reading the
        client."""
        for effect in effects:
            if isinstance(effect, EndToClient):
                return False
            if self._is_deaf:
                continue
            with trio.CancelScope() as self._saying:
                try:
                    if isinstance(effect, ToLeader):
                        await self._leader.send_all(effect.data)
                    elif isinstance(effect, EndToLeader):
                        await self._leader.send_eof()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self._is_deaf = True  # its earlier bytes must still be read
        return True

    def _hush(self) -> None:
        self._is_deaf = True
        self._saying.cancel()

    # Down

    async def _carry_down(self, data: bytes) -> None:
        """Pass the leader's bytes to the client."""
        relay = self.relay
        effects = relay.from_leader(data) if data else []
        while await self._tell(effects) and relay.state is RelayState.CARRYING:
            effects = await self._heard()
        self._hush()
        self._all.deadline = trio.current_time() + FAREWELL_S

    async def _heard(self) -> list[Effect]:
        """Return the effects of the leader's next bytes, or of its end."""
        relay, data, is_broken = self.relay, b"", False
        with trio.CancelScope() as self._hearing:
            if self._lost:
                self._hearing.cancel()
            try:
                data = bytes(await self._leader.receive_some(RECEIVE_BYTES_MAX))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                is_broken = True
        if self._lost:
            return relay.lost(self._lost)
        if data:
            return relay.from_leader(data)
        return relay.lost(LEADER_GONE) if is_broken else relay.leader_ended()

    async def _tell(self, effects: list[Effect]) -> bool:
        """Send effects to the client; return whether it is still there."""
        try:
            for effect in effects:
                if isinstance(effect, ToClient):
                    await self._client.send_all(effect.data)
                elif isinstance(effect, EndToClient) and effect.farewell:
                    await self._client.send_eof()
                elif isinstance(effect, EndToClient):
                    self._all.cancel()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._all.cancel()
            return False
        return True


class Relays:
    """The clients carried by one node."""

    def __init__(self, carried_max: int = CARRIED_MAX) -> None:
        self._carried_max = carried_max
        self._places = 0
        self.carried: dict[Carried, None] = {}
        self.carried_total = 0
        """Total since the node started."""
        self.lost_total = 0
        """Those of them whose leader was lost."""
        self._up_bytes = self._down_bytes = 0  # of past clients

    def __repr__(self) -> str:
        return f"<Relays of {len(self.carried)} clients>"

    @property
    def up_bytes(self) -> int:
        """Bytes from clients to leaders."""
        return self._up_bytes + sum(each.relay.up_bytes for each in self.carried)

    @property
    def down_bytes(self) -> int:
        """Bytes from leaders to clients."""
        return self._down_bytes + sum(each.relay.down_bytes for each in self.carried)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Reserve a place for one more client. Raises :class:`NotServed` if there is none."""
        if self._places >= self._carried_max:
            raise NotServed(f"this node carries {self._carried_max} connections, its maximum")
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    async def carry(self, carried: Carried, unread: bytes, early: bytes) -> None:
        """Carry a client until it is done."""
        self.carried[carried] = None
        self.carried_total += 1
        try:
            await carried.run(unread, early)
        finally:
            del self.carried[carried]
            relay = carried.relay
            self._up_bytes += relay.up_bytes
            self._down_bytes += relay.down_bytes
            self.lost_total += relay.is_lost
