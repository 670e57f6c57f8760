"""The context of a client: what all of its producers and consumers share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from anyio.abc import TaskGroup

from arneb_pulsar.client.connection.backoff import Backoff
from arneb_pulsar.client.connection.pool import Pool
from arneb_pulsar.client.lookup.lookup import Lookup
from arneb_pulsar.client.tasks.clock import Clock
from arneb_pulsar.client.tasks.room import Room


@dataclass(slots=True)
class ClientContext:
    """The shared parts of one client, made when it opens."""

    tasks: TaskGroup
    pool: Pool
    lookup: Lookup
    clock: Clock
    random: Random
    memory: Room
    wall_ms: Callable[[], int]
    """Returns the time of day, in ms since the epoch."""
    operation_timeout_s: float
    backoff_initial_s: float
    backoff_cap_s: float
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    """The next ids of producers, consumers and watchers."""

    def __repr__(self) -> str:
        return f"<ClientContext over {self.pool!r}>"

    def backoff(self) -> Backoff:
        """Return the delays for one series of attempts."""
        return Backoff(self.random, self.backoff_initial_s, self.backoff_cap_s)
