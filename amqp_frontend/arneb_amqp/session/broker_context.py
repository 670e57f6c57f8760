"""What a session is told about its broker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_amqp.config import AmqpConfig
from arneb_amqp.routing.routes import Routes


class Vhost(Protocol):
    """A vhost, as far as a session needs it."""

    @property
    def routes(self) -> Routes:
        """The routes that all its connections share."""
        ...

    def foreign_topic(self, queue: str) -> bool:
        """There is a topic of that queue's name, though nobody may have declared the queue."""
        ...

    def refuses(self, queues: Sequence[str]) -> bool:
        """One of ``queues`` may refuse a publish."""
        ...

    def answer_timeout_s(self, queue: str) -> float | None:
        """How long deliveries of ``queue`` may wait for their answers, if it says so itself; 0 =
        for ever."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The broker, as far as a session needs it. ``loopback``: the client is on this machine."""

    config: AmqpConfig
    vhosts: Callable[[str], Vhost | None]
    new_name: Callable[[], str]
    loopback: bool = True
