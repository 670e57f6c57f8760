"""A player: one feature under SIGKILL, its clients and what they were told.

The rule: a player has topics of its own and knows nothing of the others, so any mix of players can
share a broker. Its record contains only what it was told. After a restart, pure functions compare
the record with what the broker shows, and name each anomaly.
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
    """A broker, or several that are reached through one address."""

    @property
    def address(self) -> Address:
        """Where it listens for AMQP."""
        ...

    @property
    def pulsar_address(self) -> Address:
        """Where it listens for Pulsar."""
        ...

    @property
    def admin_url(self) -> str:
        """The URL of Pulsar's admin API."""
        ...


class Player:
    """The harness calls, in this order: ``prepare`` once; then for each life ``judge``, perhaps
    ``start``, and after the kill ``crash`` and ``end``."""

    name: ClassVar[str]

    def __init__(self, broker: Reached, dice: random.Random) -> None:
        self.broker = broker
        self.dice = dice
        self.generation = 0
        """Incremented whenever everything is deleted and made again, so that judging stays
        short."""
        self._clients: list[AmqpClient | PulsarClient] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} generation {self.generation}>"

    def called(self, what: str) -> str:
        """A name in this generation."""
        return f"{self.name}-{what}-{self.generation}"

    def topic(self, what: str) -> str:
        """The same for a Pulsar topic."""
        return f"persistent://public/default/{self.called(what)}"

    async def prepare(self) -> None:
        """Create what a generation needs."""
        raise NotImplementedError

    async def start(self) -> list[Loop]:
        """Connect the clients; the result is what they do until the broker is gone."""
        raise NotImplementedError

    def summary(self) -> str:
        """What the player has seen so far, so that an idle player is not mistaken for a successful
        one."""
        raise NotImplementedError

    def cut(self) -> None:
        """One of several brokers is about to be lost. From now on, what one client hears may come
        from the next broker, although other clients have not noticed yet."""

    def crash(self, now: float) -> None:
        """The broker died at ``now`` on the event loop's clock."""

    async def judge(self) -> list[str]:
        """Every broken promise, after a restart; what was found becomes the reference from now
        on."""
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
    """Run until the broker is gone, which ends every loop."""
    with suppress(AmqpClosed, PulsarClosed, OSError, TimeoutError):
        await loop
