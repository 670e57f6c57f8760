"""A carrier: carries the effects of one session into the bridge, in their order.

The rule: orders are carried out at once; a request has to be waited for, and everything behind
it waits too. So at most one task carries requests, and while it does nobody else takes effects.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol, TypeGuard

import trio

from arneb_amqp.server.bridge import Bridge
from arneb_amqp.server.receiver import NOBODY
from arneb_amqp.session.connection.session import ConnectionSession
from arneb_amqp.session.deliveries import Settled
from arneb_amqp.session.effects import (
    Acknowledge,
    Append,
    Disconnect,
    Effect,
    EndConnection,
    Get,
    Leave,
    Perform,
    Reject,
    Release,
    Request,
    Wake,
)
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.supervision import contain

_AFTER_PUBLISHES: Final = (Perform, Get, Leave, EndConnection)
"""Requests that wait until what was published before them is in its queues, as in RabbitMQ: a
client counts, gets, purges or deletes it at once, and whoever closes may tell others to look."""


PLACES_PER_TURN: Final = 8_192
"""What is answered of many deliveries in one turn: some 2 ms."""

Answering = Acknowledge | Reject | Release
_ANSWERING: Final = (Acknowledge, Reject, Release)


def _is_large(effect: Effect) -> TypeGuard[Answering]:
    return isinstance(effect, _ANSWERING) and len(effect.settled.places) > PLACES_PER_TURN


def in_pieces(effect: Answering) -> Iterator[Answering]:
    """The same answers in their order, few enough of them at a time."""
    settled = effect.settled
    kind = type(effect)
    for first in range(0, len(settled.places), PLACES_PER_TURN):
        yield kind(Settled(settled.consumer, settled.places[first : first + PLACES_PER_TURN]))
    if settled.masks:
        yield kind(Settled(settled.consumer, [], settled.masks))


class Carried(Protocol):
    """A connection as its carrier uses it."""

    def disconnect(self, order: Disconnect) -> None:
        """Close the socket when all is written."""
        ...

    def flush(self) -> None:
        """Write what has been gathered."""
        ...

    async def room(self) -> None:
        """Wait until there is room for one more message."""
        ...

    def break_down(self, error: Exception) -> None:
        """A fault of ours: the connection ends at once."""
        ...


class Carrier:
    """Carries out what one session wants.

    Invariant: ``busy`` while a task carries effects out that have to be waited for; only that
    task takes effects then.
    """

    def __init__(
        self,
        session: ConnectionSession,
        bridge: Bridge,
        connection: Carried,
        nursery: trio.Nursery,
        instants: Callable[[], tuple[float, int]],
        long_turns: LongTurns,
    ) -> None:
        self._session = session
        self._bridge = bridge
        self._connection: Carried = connection
        self._nursery = nursery
        self._instants = instants
        self._long_turns = long_turns
        self.busy = False
        """A task carries effects out."""
        self._idle: trio.Event | None = None
        self._kept: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<Carrier {'busy' if self.busy else 'idle'}>"

    def act(self) -> None:
        """Carry out what an event has brought about; what must be waited for gets a task."""
        if self.busy:
            return
        waiting = self.order()
        if waiting or self._session.has_more:
            self.busy = True
            carry_on = partial(self._carry_on, waiting)
            self._nursery.start_soon(contain, "carrying out an AMQP request", carry_on)

    def order(self) -> list[Effect]:
        """Carry out effects up to the first that takes long; the rest, for :meth:`carry_out`. Not
        while another task does that: see :meth:`finished`."""
        assert not self.busy, "at most one task carries effects out"
        effects = self._session.take_effects()
        while effects:
            for index, effect in enumerate(effects):
                if isinstance(effect, Append):  # as most are
                    self._bridge.append(effect)
                elif isinstance(effect, _ANSWERING):
                    if len(effect.settled.places) > PLACES_PER_TURN:
                        return effects[index:]
                    self._order_one(effect)
                elif isinstance(effect, Request):
                    return effects[index:]
                else:
                    self._order_one(effect)
            effects = self._session.take_effects()
        return effects

    async def carry_out(self, effects: list[Effect]) -> None:
        """Carry out effects, the first of which takes long, and all that they bring about; and have
        the session handle the rest of what came, turn by turn."""
        self.busy = True
        try:
            while effects or self._session.has_more:
                if not effects:
                    self._connection.flush()
                    await self._long_turns.next()
                    self._session.go_on(*self._instants())
                for effect in effects:
                    if isinstance(effect, Request):
                        if isinstance(effect, Get):
                            # A read may bring ten thousand of them, each for a message of a MiB.
                            await self._connection.room()
                        if isinstance(effect, _AFTER_PUBLISHES):
                            await self._all_kept()
                        event = await self._bridge.perform(effect)
                        self._session.handle(event, *self._instants())
                        if self._session.discarded:
                            await self._shed()
                    elif _is_large(effect):
                        for piece in in_pieces(effect):
                            self._order_one(piece)
                            await self._long_turns.next()
                    else:
                        self._order_one(effect)
                effects = self._session.take_effects()
        finally:
            self.busy = False
            if self._idle is not None:
                self._idle.set()
                self._idle = None

    async def come_apart(self) -> None:
        """The connection is over. What it consists of refers to it no more: it is given up with its
        last user then, and not only when a collection of everything finds it."""
        self._session.end()
        self._bridge.end_telling()
        self._connection = NOBODY
        await self._shed()

    async def finished(self) -> None:
        """Wait until nobody carries effects out."""
        while self.busy:
            if self._idle is None:
                self._idle = trio.Event()
            await self._idle.wait()

    async def _shed(self) -> None:
        """Forget the deliveries that nobody answers any more, turn by turn."""
        while self._session.discarded:
            self._session.discarded.shed()
            await trio.lowlevel.checkpoint()

    def all_kept(self) -> None:
        """Everything that the client has published so far is in its queues."""
        if self._kept is not None:
            self._kept.set()
            self._kept = None

    async def _all_kept(self) -> None:
        while self._session.effects.is_waiting:
            if self._kept is None:
                self._kept = trio.Event()
            await self._kept.wait()

    def _order_one(self, effect: Effect) -> None:
        match effect:
            case Append():
                self._bridge.append(effect)
            case Acknowledge():
                self._bridge.acknowledge(effect)
            case Reject():
                self._bridge.reject(effect)
            case Release():
                self._bridge.release(effect)
            case Wake():
                self._bridge.wake(effect)
            case Disconnect():
                self._connection.disconnect(effect)

    async def _carry_on(self, effects: list[Effect]) -> None:
        try:
            await self.carry_out(effects)
        except Exception as error:
            self._connection.break_down(error)
        self._connection.flush()
