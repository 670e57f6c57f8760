"""A player: one feature under SIGKILL, its clients and what they were told.

The rule: a player has topics of its own and knows nothing of the others, so any mix of them can
share a broker. What it was told is its own record; after a restart it is held against what the
broker shows, by pure functions that name each anomaly.
"""

import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from conformance.brokers.process import Address
from conformance.wire.amqp import AmqpClient, AmqpClosed
from conformance.wire.pulsar import PulsarClient, PulsarClosed

Loop = Coroutine[Any, Any, None]


class Reached(Protocol):
    """A broker, or several that are reached as one."""

    @property
    def address(self) -> Address:
        """Where it speaks AMQP."""
        ...

    @property
    def pulsar_address(self) -> Address:
        """Where it speaks Pulsar."""
        ...

    @property
    def admin_url(self) -> str:
        """Where Pulsar's admin API is."""
        ...


class Player:
    """What the harness calls, in this order: ``prepare`` once; then for each life ``judge``,
    perhaps ``start``, and after the kill ``crash`` and ``end``."""

    name: ClassVar[str]

    def __init__(self, broker: Reached, dice: random.Random) -> None:
        self.broker = broker
        self.dice = dice
        self.generation = 0
        """Counts up whenever everything is deleted and made anew, so that judging stays short."""
        self._clients: list[AmqpClient | PulsarClient] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} generation {self.generation}>"

    def called(self, what: str) -> str:
        """A name of this generation."""
        return f"{self.name}-{what}-{self.generation}"

    def topic(self, what: str) -> str:
        """The same for Pulsar."""
        return f"persistent://public/default/{self.called(what)}"

    async def prepare(self) -> None:
        """Make what a generation needs."""
        raise NotImplementedError

    async def start(self) -> list[Loop]:
        """Connect everybody; what they do until the broker is gone."""
        raise NotImplementedError

    def summary(self) -> str:
        """What it has seen so far, so that nobody takes idleness for health."""
        raise NotImplementedError

    def cut(self) -> None:
        """One of several brokers is about to be lost; from now on what a client hears may be of
        the next one, though others have not noticed yet."""

    def crash(self, now: float) -> None:
        """The broker died at ``now`` of the loop's clock."""

    async def judge(self) -> list[str]:
        """Every broken promise, after a restart; what was found is what counts from now on."""
        raise NotImplementedError

    async def clear(self) -> None:
        """Delete this generation."""
        raise NotImplementedError

    async def renew(self) -> None:
        """Begin a new generation."""
        await self.clear()
        self.generation += 1
        await self.prepare()

    async def end(self) -> None:
        """Drop every connection."""
        while self._clients:
            await self._clients.pop().abort()

    async def amqp(self) -> AmqpClient:
        client = await AmqpClient.open(self.broker.address)
        self._clients.append(client)
        return client

    async def pulsar(self) -> PulsarClient:
        client = await PulsarClient.open(self.broker.pulsar_address)
        self._clients.append(client)
        return client


async def until_gone(loop: Loop) -> None:
    """Run until the broker is gone, which is how every loop ends."""
    with suppress(AmqpClosed, PulsarClosed, OSError, TimeoutError):
        await loop
