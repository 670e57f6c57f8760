"""Attachment: one producer or consumer, kept attached to its topic's broker.

The rule: the first attempt's error is raised to the caller; after that it reattaches by itself for
as long as it takes, and ends only on errors that another attempt would not change.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Final, TypeVar

import anyio

from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.connection.dialling import Address, parse_address
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConfigurationError,
    IncompatibleSchema,
    InvalidUrl,
    ProducerFenced,
    PulsarError,
    SubscriptionNotFound,
    TimedOut,
    TopicNotFound,
    TopicTerminated,
)
from arneb_pulsar.names import TopicName

STEADY_S: Final = 1.0
"""After being attached for this many seconds, it reattaches without a pause."""

T = TypeVar("T")

LOG = logging.getLogger("arneb_pulsar.client")

FINAL: Final = (
    ClientClosed,
    ConfigurationError,
    IncompatibleSchema,
    ProducerFenced,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminated,
)
"""Errors that end a producer or consumer that was attached before. All others are retried for ever:
after a broker's restart, clients may be refused for a while."""

Attach = Callable[[Connection], Awaitable[None]]


class State(Enum):
    """The state of an attachment."""

    NEW = auto()
    """It was not started, or its first attempt failed."""
    COMING = auto()
    """It is looking for its broker, or waiting for another attempt."""
    ATTACHED = auto()
    STOPPED = auto()
    """For good."""


MOVES: Final = {
    State.NEW: frozenset({State.COMING, State.STOPPED}),
    State.COMING: frozenset({State.ATTACHED, State.NEW, State.STOPPED}),
    State.ATTACHED: frozenset({State.COMING, State.STOPPED}),
    State.STOPPED: frozenset({State.STOPPED}),
}
"""The allowed transitions."""


class Attachment:
    """Finds the broker, and makes the producer or consumer there."""

    def __init__(
        self,
        context: ClientContext,
        topic: TopicName,
        attach: Attach,
        ended: Callable[[PulsarError], None],
        *,
        own_connection: bool = False,
        patient: bool = False,
    ) -> None:
        """``attach`` makes it on a connection, and raises if the connection was lost meanwhile;
        ``ended`` is called once if it cannot reattach. ``patient``: attaching may take any time."""
        self.state = State.NEW
        self.connection: Connection | None = None
        """Its connection; None while it is not attached."""
        self._context = context
        self._topic = topic
        self._attach = attach
        self._ended = ended
        self._own = own_connection
        self._patient = patient
        self._hint = ""
        self._through: Address | None = None
        """The proxy that the last lookup named: brokers behind it are reached by no other way."""
        self._backoff = context.backoff()
        self._attached_at = -math.inf
        self._scope: anyio.CancelScope | None = None

    def __repr__(self) -> str:
        where = "nowhere" if self.connection is None else f"at {self.connection.machine.where}"
        return f"<Attachment of {self._topic} {self.state.name}, {where}>"

    async def start(self) -> None:
        """Attach for the first time. Raises the error that was final, or the last one when the
        operation's time is up."""
        context, backoff = self._context, self._context.backoff()
        last: PulsarError | None = None
        limit_s = None if self._patient else context.operation_timeout_s
        self._move(State.COMING)
        try:
            with anyio.fail_after(limit_s):
                while True:
                    try:
                        await self._try()
                        return
                    except PulsarError as error:
                        if not error.retriable:
                            raise
                        last = error
                    await anyio.sleep(backoff.next_s())
        except TimeoutError as error:
            if isinstance(error, PulsarError):
                raise
            raise last or TimedOut(
                f"expected {self._topic} to be served within {limit_s} s, got no answer"
            ) from None
        finally:
            if self.state is State.COMING:
                self._move(State.NEW)

    def lost(self, hint: str = "") -> None:
        """Reattach after a loss. ``hint`` names the broker that may have the topic now."""
        self._leave()
        self._hint = hint
        if self.state is State.ATTACHED:
            self._move(State.COMING)
            self._scope = anyio.CancelScope()
            self._context.tasks.start_soon(self._return, self._scope)

    def stop(self) -> None:
        """Stop reattaching."""
        self._move(State.STOPPED)
        if self._scope is not None:
            self._scope.cancel()
        self._leave()

    def _move(self, state: State) -> None:
        assert state in MOVES[self.state], (self, state)
        self.state = state

    def _leave(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None and self._own:
            self._context.pool.release(connection)

    async def _return(self, scope: anyio.CancelScope) -> None:
        """Reattach, at once if it was attached for long enough: a broker that accepts clients only
        to disconnect them is asked no more often than one that refuses."""
        backoff = self._backoff
        with scope:
            if self._context.clock.now() - self._attached_at < STEADY_S:
                await anyio.sleep(backoff.next_s())
            else:
                backoff.reset()
            while True:
                try:
                    await self._try()
                    return
                except FINAL as error:
                    self._ended(error)
                    return
                except PulsarError as error:
                    LOG.info("%s is not served yet: %s", self._topic, error)
                await anyio.sleep(backoff.next_s())

    async def _try(self) -> None:
        self._check_wanted()
        connection = await self._find()
        self.connection = connection
        try:
            await self._attach(connection)
        except BaseException:
            self._leave()
            raise
        self._check_wanted()
        self._move(State.ATTACHED)
        self._attached_at = self._context.clock.now()

    def _check_wanted(self) -> None:
        if self.state is State.STOPPED:
            raise ClientClosed(f"expected {self._topic} to be wanted, was given up meanwhile")

    async def _find(self) -> Connection:
        pool, hint = self._context.pool, self._hint
        make = pool.own if self._own else pool.to
        self._hint = ""
        if hint and (address := _address_in(hint)) is not None:
            return await make(address, self._through)
        broker = await self._context.lookup.broker_of(self._topic)
        self._through = broker.through
        return await make(broker.address, broker.through)


def _address_in(hint: str) -> Address | None:
    """Return the broker that another one named; None if it is not an address."""
    try:
        return parse_address(hint)
    except InvalidUrl as error:
        LOG.warning("a broker named another with an invalid address: %s", error)
        return None


async def patiently(context: ClientContext, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer, or the operation's time is up. Raises the last error, or the
    first that another attempt would not change."""
    backoff = context.backoff()
    end = context.clock.now() + context.operation_timeout_s
    while True:
        try:
            return await ask()
        except PulsarError as error:
            if not error.retriable or context.clock.now() >= end:
                raise
        await anyio.sleep(backoff.next_s())
