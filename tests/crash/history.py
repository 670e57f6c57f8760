"""What clients were told and did, across any number of lives of one broker.

The rule: this is the clients' own record. Nothing in it is read back from the broker
under test except what it answered at the time, so it can be held against what the broker
shows after a crash; :mod:`tests.crash.verdict` does that.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Identity = tuple[str, int]
"""A message by its publisher and its number there, from 1."""

Item = tuple[int, int, int]
"""Where a message stands: ledger, entry, index in the batch (0 when there is none)."""

ACK_DURABLE_WITHIN_S = 0.1
ACK_MARGIN_S = 0.2
"""What a busy machine may add to the promise before a test calls it broken."""
ACK_WITHIN_S = ACK_DURABLE_WITHIN_S + ACK_MARGIN_S

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class AckBook(Generic[T]):
    """The acks of one subscription.

    An ack that was sent may be durable; one in ``durable`` must be. What is in neither must
    come back.
    """

    sent: set[T] = field(default_factory=set)
    durable: set[T] = field(default_factory=set)
    reached: dict[T, float] = field(default_factory=dict)
    """When the broker had certainly read an ack that has no receipt."""

    def send(self, items: Iterable[T]) -> None:
        self.sent.update(items)

    def reach(self, items: Iterable[T], now: float) -> None:
        """The broker answered something that was sent behind these acks."""
        for item in items:
            self.reached.setdefault(item, now)

    def receipt(self, items: Iterable[T]) -> None:
        self.durable.update(items)

    def crash(self, now: float) -> None:
        """The broker died: acks read long enough ago have become durable, the rest may have."""
        limit = now - ACK_WITHIN_S
        self.durable.update(item for item, read in self.reached.items() if read <= limit)
        self.reached.clear()

    def recovered(self, log: Iterable[T], returned: Iterable[T]) -> None:
        """After the restart the state is known exactly: what did not come back is gone."""
        gone = set(log) - set(returned)
        self.sent = set(gone)
        self.durable = gone


@dataclass(frozen=True, slots=True)
class Seen:
    """One AMQP delivery."""

    consumer: str
    identity: Identity
    redelivered: bool


@dataclass(slots=True)
class History:
    """One generation of topics: everything that happened to it so far."""

    published: dict[str, int] = field(default_factory=dict)
    """The highest number each publisher may have written to its socket."""
    confirmed: dict[Identity, Item | None] = field(default_factory=dict)
    """Confirms and receipts; a Pulsar receipt says where the message stands."""
    refused: list[Identity] = field(default_factory=list)
    """Negative confirms, which nothing here provokes."""
    seen: list[Seen] = field(default_factory=list)
    """Every AMQP delivery of the present life, in order."""
    ever_seen: set[Identity] = field(default_factory=set)
    """Every AMQP delivery of all lives before."""
    entries_seen: set[Item] = field(default_factory=set)
    """Every message delivered over Pulsar."""
    amqp: AckBook[Identity] = field(default_factory=AckBook)
    pulsar: AckBook[Item] = field(default_factory=AckBook)
    log: list[tuple[Item, Identity]] = field(default_factory=list)
    """The log as it was read after the last restart."""

    def crash(self, now: float) -> None:
        self.amqp.crash(now)
        self.pulsar.crash(now)


@dataclass(slots=True)
class Recovery:
    """What the broker showed after a restart."""

    log: list[tuple[Item, Identity]] = field(default_factory=list)
    """The whole topic, read from the earliest message."""
    copied: list[Identity] = field(default_factory=list)
    """The other topic of the fanout exchange."""
    amqp: list[Seen] = field(default_factory=list)
    """What came back on the queue, in order."""
    pulsar: list[Item] = field(default_factory=list)
    """What came back on the Pulsar subscription, in order."""
    told: list[bytes] = field(default_factory=list)
    """The broker's own history of the queue, batch by batch."""
    after_crash: bool = True
    """False when the last stop was orderly after all."""
