"""What registries and services hold of others, played: connections, and parts of the core."""

from dataclasses import dataclass, field
from typing import Any

import trio

from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.services.clients.consumers import ClientConsumer
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.session.interface.effects import ConsumerKey
from arneb_pulsar.session.interface.events import Event


@dataclass(eq=False)
class FakeConnection:
    """A client that says whether it lives, and remembers what it was told."""

    address: str = "here:1"
    caller: Caller = NOBODY
    client_name: str = "test"
    is_secured: bool = False
    received_bytes: int = 0
    sent_bytes: int = 0
    is_full: bool = False
    lives: bool = True
    events: list[Event] = field(default_factory=list)
    was_killed: bool = False
    closed_consumers: list[ConsumerKey] = field(default_factory=list)

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()

    def tell(self, event: Event) -> None:
        self.events.append(event)

    async def is_alive(self) -> bool:
        await trio.lowlevel.checkpoint()
        return self.lives

    def kill(self) -> None:
        self.was_killed = True

    def closed(self, key: ConsumerKey, assigned: Assigned = NOWHERE) -> None:
        self.closed_consumers.append(key)


@dataclass(eq=False)
class FakeTopic:
    """A topic of which only the name counts."""

    name: str
    id: int = 1


@dataclass(eq=False)
class FakeConsumer:
    """A consumer, a subscription too: it has a name and may be detached."""

    name: str
    is_detached: bool = False

    def detach(self) -> None:
        self.is_detached = True


def attached(
    connection: FakeConnection, topic: FakeTopic, subscription: FakeConsumer, key: int = 1
) -> ClientConsumer:
    core: Any = FakeConsumer(f"consumer {key}")
    named: tuple[Any, Any] = topic, subscription
    return ClientConsumer(connection, connection, ConsumerKey(key), *named, core)
