"""The effect runner: carries out one session's effects, in order.

The rule: :meth:`EffectRunner._begin` alone maps effects to what carries them out, and mypy proves
that it covers every effect. Orders are carried out at once; a request may have to wait,
and everything after it waits, too. So at most one task carries out requests, and meanwhile no other
task takes effects.
"""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, Protocol, assert_never

import trio
from pamqp.commands import Queue

from arneb_amqp.errors import AmqpError, precondition_failed
from arneb_amqp.routing.search import Search
from arneb_amqp.server.context import NOBODY, ConnectionContext, CoreEvents
from arneb_amqp.server.operations.consumers import Consumers
from arneb_amqp.server.operations.core_errors import in_amqp
from arneb_amqp.server.operations.methods import Methods
from arneb_amqp.server.operations.publishes import Publishes
from arneb_amqp.session.connection.session import ConnectionSession
from arneb_amqp.session.deliveries import AnsweredDeliveries
from arneb_amqp.session.effects import (
    Acknowledge,
    Append,
    Authorize,
    Awaited,
    Cancel,
    Commit,
    Consume,
    DeliveryAnswer,
    Disconnect,
    Effect,
    EndConnection,
    Enter,
    Find,
    Get,
    Leave,
    LogIn,
    Perform,
    Reject,
    Release,
    Renew,
    Request,
    Vouch,
    Wake,
)
from arneb_amqp.session.events import RequestDone, RequestFailed
from arneb_core.api.errors import CoreError
from arneb_core.api.process.long_turns import LongTurns
from arneb_core.api.process.supervision import contain

_AFTER_PUBLISHES: Final = (Perform, Get, Consume, Cancel, Leave, EndConnection)
"""Requests that wait until earlier publishes are in their queues, as in RabbitMQ: a client counts,
gets, purges or deletes them at once, and a client that closes may tell others to look."""


def _after_deliveries(effect: Awaited) -> bool:
    """Whether a request also waits until the consumers of a queue have been given what is in it:
    RabbitMQ's queues see a publish before the method that follows it."""
    if isinstance(effect, Perform):
        return isinstance(effect.command, Queue.Purge | Queue.Delete)
    return isinstance(effect, Consume | Cancel)


POSITIONS_PER_TURN: Final = 8_192
"""Entries answered in one turn: some 2 ms."""


def in_pieces(effect: Acknowledge | Reject | Release) -> Iterator[Acknowledge | Reject | Release]:
    """Split answers, in order, into pieces small enough for a turn."""
    answered = effect.answered
    kind = type(effect)
    for first in range(0, len(answered.positions), POSITIONS_PER_TURN):
        yield kind(
            AnsweredDeliveries(
                answered.consumer, answered.positions[first : first + POSITIONS_PER_TURN]
            )
        )
    masks = list(answered.masks.items())
    for first in range(0, len(masks), POSITIONS_PER_TURN):
        yield kind(
            AnsweredDeliveries(
                answered.consumer, [], dict(masks[first : first + POSITIONS_PER_TURN])
            )
        )


class RunnerConnection(CoreEvents, Protocol):
    """A connection as its effect runner uses it."""

    def disconnect(self, order: Disconnect) -> None:
        """Close the socket once everything is written."""
        ...

    def flush(self) -> None:
        """Write the pending output."""
        ...

    async def room(self) -> None:
        """Wait until there is room for one more message."""
        ...

    async def all_decompressed(self) -> None:
        """Wait until all deliveries that wait to be decompressed are sent."""
        ...

    def break_down(self, error: Exception) -> None:
        """End the connection at once after a defect of ours."""
        ...


class EffectRunner:
    """Carries out one session's effects.

    Invariant: ``busy`` while a task carries out effects that must be waited for; only that task
    takes effects then.
    """

    def __init__(
        self,
        session: ConnectionSession,
        context: ConnectionContext,
        consumers: Consumers,
        connection: RunnerConnection,
        nursery: trio.Nursery,
        instants: Callable[[], tuple[float, int]],
        long_turns: LongTurns,
    ) -> None:
        self._session = session
        self._context = context
        self._publishes = Publishes(context)
        self._consumers = consumers
        self._methods = Methods(context)
        self._connection: RunnerConnection = connection
        self._nursery = nursery
        self._instants = instants
        self._long_turns = long_turns
        self.busy = False
        """Whether a task carries effects out."""
        self.is_alone = False
        """Whether all orders of the last turn are done and nobody else has had a turn for a
        while."""
        self._idle: trio.Event | None = None
        self._published: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<EffectRunner {'busy' if self.busy else 'idle'}>"

    def run(self) -> None:
        """Carry out the effects of an event; requests get a task."""
        if self.busy:
            return
        waiting = self.run_orders()
        if waiting or self._session.has_more:
            self.busy = True
            run_rest = partial(self._run_in_task, waiting)
            self._nursery.start_soon(contain, "carrying out an AMQP request", run_rest)

    def run_turn(self) -> list[Effect] | None:
        """As :meth:`run_orders`, at the end of a turn in which the client was read; None when
        nothing is left for :meth:`run_all`. Publishes may be confirmed meanwhile."""
        core, waiting, is_all = self._context.core, [], False
        core.turn_begins(self._context.owner)
        try:
            waiting = self.run_orders()
            is_all = not (waiting or self._session.has_more)
        finally:
            # Not if there is more: no other task may take effects before it is done.
            self.is_alone = core.turn_ends(may_be_called=is_all)
        return None if is_all else waiting

    def run_orders(self) -> list[Effect]:
        """Carry out effects up to the first that takes long; return the rest, for :meth:`run_all`.
        Not while another task does so: see :meth:`finished`."""
        assert not self.busy, "at most one task carries effects out"
        effects, answered = self._session.take_effects(), 0
        while effects:
            for index, effect in enumerate(effects):
                if isinstance(effect, Append):  # the usual case, so without a call
                    self._publishes.append(effect)
                elif isinstance(effect, Awaited) or (
                    isinstance(effect, DeliveryAnswer)
                    and (answered := answered + effect.answered.entries) > POSITIONS_PER_TURN
                ):
                    return effects[index:]
                else:
                    self._begin(effect)
            effects = self._session.take_effects()
        return effects

    async def run_all(self, effects: list[Effect]) -> None:
        """Carry out effects, the first of which takes long, and all that follow from them; and have
        the session handle the rest of its input, turn by turn."""
        self.busy, answered = True, 0
        try:
            while effects or self._session.has_more:
                if not effects:
                    self._connection.flush()
                    await self._long_turns.next()
                    answered = 0
                    self._session.handle_more(*self._instants())
                for effect in effects:
                    if isinstance(effect, Awaited):
                        if isinstance(effect, Get):
                            # A read may bring ten thousand gets, each for a message of a MiB.
                            await self._connection.room()
                        if isinstance(effect, _AFTER_PUBLISHES):
                            await self._wait_until_published()
                        if _after_deliveries(effect):
                            await self._connection.deliveries_made(to_anybody=True)
                        if isinstance(effect, Cancel) and self._session.output.compressed:
                            # What it has been given is sent before the answer.
                            self._consumers.retire(effect)
                            await self._connection.all_decompressed()
                        event = await self._answer(effect)
                        self._session.handle(event, *self._instants())
                        if self._session.discarded:
                            await self._shed()
                    elif isinstance(effect, Acknowledge | Reject | Release):
                        for piece in in_pieces(effect):
                            if (answered := answered + piece.answered.entries) > POSITIONS_PER_TURN:
                                await self._long_turns.next()
                                answered = piece.answered.entries
                            self._begin(piece)
                    else:
                        self._begin(effect)
                effects = self._session.take_effects()
        finally:
            self.busy = False
            if self._idle is not None:
                self._idle.set()
                self._idle = None

    async def come_apart(self) -> None:
        """Break the connection's reference cycles, so that it is freed with its last user and not
        only by a full garbage collection."""
        self._session.end()
        self._context.core_events = self._connection = NOBODY
        await self._shed()

    async def finished(self) -> None:
        """Wait until no task carries effects out."""
        while self.busy:
            if self._idle is None:
                self._idle = trio.Event()
            await self._idle.wait()

    async def _shed(self) -> None:
        """Forget discarded deliveries, turn by turn."""
        while self._session.discarded:
            self._session.discarded.shed()
            await trio.lowlevel.checkpoint()

    def all_published(self) -> None:
        """Note that everything the client has published so far is in its queues."""
        if self._published is not None:
            self._published.set()
            self._published = None

    async def end(self) -> None:
        """Detach all consumers and delete exclusive queues: the connection has ended.
        Idempotent."""
        await self._consumers.leave_all()
        await self._methods.delete_exclusive()
        self._context.left()

    def _begin(self, effect: Effect) -> Coroutine[Any, Any, object] | None:
        """Carry ``effect`` out; a request is only begun, and the returned coroutine must be
        awaited."""
        match effect:
            case Append():
                self._publishes.append(effect)
            case Acknowledge(answered):
                self._consumers.acknowledge(answered)
            case Reject(answered):
                self._consumers.reject(answered)
            case Release(answered):
                self._consumers.release(answered)
            case Wake(consumers):
                self._consumers.wake(consumers)
            case Disconnect():
                self._connection.disconnect(effect)
            case LogIn():
                return self._context.log_in(effect)
            case Vouch():
                return self._context.vouch(effect)
            case Renew():
                return self._context.renew(effect)
            case Enter():
                return self._context.enter(effect)
            case Authorize():
                return self._context.authorize(effect)
            case Find(search):
                return _find(search)
            case Perform(command):
                return self._methods.perform(command)
            case Consume():
                return self._consumers.consume(effect)
            case Cancel():
                return self._consumers.cancel(effect)
            case Get():
                return self._consumers.get(effect)
            case Commit():
                return self._commit(effect)
            case Leave(channel, consumers):
                return self._consumers.leave_channel(channel, consumers)
            case EndConnection():
                return self.end()
            case _:
                assert_never(effect)
        return None

    async def _answer(self, request: Request) -> RequestDone | RequestFailed:
        """Carry out ``request`` and return its outcome."""
        begun = self._begin(request)
        assert begun is not None, "a request is waited for"
        try:
            return RequestDone(await begun)
        except AmqpError as error:
            return RequestFailed(error)
        except CoreError as error:
            return RequestFailed(in_amqp(error))

    async def _commit(self, request: Commit) -> None:
        """Commit a transaction and wait for the deliveries that it causes: its answer follows
        them."""
        acks = self._consumers.present(request.acknowledged)
        admitted = await self._publishes.commit(request, acks)
        self._consumers.answered(acks)
        await self._connection.deliveries_made()
        if not admitted:
            raise precondition_failed("partial tx completion")

    async def _wait_until_published(self) -> None:
        while self._session.effects.is_waiting:
            if self._published is None:
                self._published = trio.Event()
            await self._published.wait()

    async def _run_in_task(self, effects: list[Effect]) -> None:
        try:
            await self.run_all(effects)
        except Exception as error:
            self._connection.break_down(error)
        self._connection.flush()


async def _find(search: Search) -> None:
    while not search.step():
        await trio.lowlevel.checkpoint()
