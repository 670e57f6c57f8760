"""Onlooking: who sees each message that Pulsar's clients send and get, if anybody does.

The rule: an onlooker changes nothing, raises nothing and keeps nobody waiting. To have none costs
one look a run that is sent, and nothing for what is delivered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_core.api.deliveries import Deliveries


@dataclass(frozen=True, slots=True)
class Client:
    """Whose messages are looked at."""

    address: str
    role: str


class Onlooker(Protocol):
    """Sees messages."""

    def sent(self, client: Client, topic: str, entries: Sequence[bytes]) -> None:
        """Messages came, which are to be stored."""
        ...

    def delivered(self, client: Client, topic: str, subscription: str, run: Deliveries) -> None:
        """Messages go to a consumer."""
        ...


@dataclass(slots=True)
class Onlooking:
    """Who looks on; set once, before clients come."""

    onlooker: Onlooker | None = None

    def __repr__(self) -> str:
        return f"<Onlooking {self.onlooker!r}>"
