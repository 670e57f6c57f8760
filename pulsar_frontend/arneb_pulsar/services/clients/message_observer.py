"""The observer of each message that Pulsar's clients send and get, if there is one.

The rule: the observer changes nothing, raises nothing and keeps nobody waiting. Without one, a run
that is sent costs one check, and a delivery nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.subscriptions.deliveries import Deliveries


@dataclass(frozen=True, slots=True)
class SeenClient:
    """The client whose messages are seen."""

    address: str
    role: str


class MessageObserver(Protocol):
    """Sees messages."""

    def sent(self, client: SeenClient, topic: str, entries: Sequence[bytes]) -> None:
        """See messages that came and are to be stored."""
        ...

    def delivered(
        self, client: SeenClient, topic: str, subscription: str, run: Deliveries, ids: LedgerIds
    ) -> None:
        """See messages that go to a consumer. ``ids``: the topic's."""
        ...


@dataclass(slots=True)
class MessageObserverSlot:
    """Holds the observer; set once, before clients come."""

    observer: MessageObserver | None = None

    def __repr__(self) -> str:
        return f"<MessageObserverSlot {self.observer!r}>"
