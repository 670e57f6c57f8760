"""What clients did and what they were told, across any number of lives of one broker.

The rule: this is the clients' own record. Nothing in it is read back from the broker under test
except its answers at the time. So it can be compared with what the broker shows after a crash,
which :mod:`tests.crash.verdict` does.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Identity = tuple[str, int]
"""A message, identified by its publisher and its number there, from 1."""

Item = tuple[int, int, int]
"""The place of a message: ledger, entry, and index in the batch (0 if there is none)."""

ACK_DURABLE_WITHIN_S = 0.1
ACK_MARGIN_S = 0.2
"""How much later than promised an ack may become durable on a busy machine before a test calls the
promise broken."""
ACK_WITHIN_S = ACK_DURABLE_WITHIN_S + ACK_MARGIN_S

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class AckBook(Generic[T]):
    """The acks of one subscription.

    An ack in ``sent`` may be durable, and one in ``durable`` must be. Messages in neither must come
    back.
    """

    sent: set[T] = field(default_factory=set)
    durable: set[T] = field(default_factory=set)
    reached: dict[T, float] = field(default_factory=dict)
    """When the broker had certainly read an ack that has no receipt."""

    def send(self, items: Iterable[T]) -> None:
        self.sent.update(items)

    def reach(self, items: Iterable[T], now: float) -> None:
        """The broker has answered something that was sent after these acks."""
        for item in items:
            self.reached.setdefault(item, now)

    def receipt(self, items: Iterable[T]) -> None:
        self.durable.update(items)

    def crash(self, now: float) -> None:
        """The broker died: acks that were read long enough ago have become durable; the others may
        have."""
        limit = now - ACK_WITHIN_S
        self.durable.update(item for item, read in self.reached.items() if read <= limit)
        self.reached.clear()

    def recovered(self, log: Iterable[T], returned: Iterable[T]) -> None:
        """After the restart the state is known exactly: messages that did not come back are
        acknowledged."""
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
    """Everything that has happened so far to one generation of topics."""

    published: dict[str, int] = field(default_factory=dict)
    """The highest number that each publisher may have written to its socket."""
    confirmed: dict[Identity, Item | None] = field(default_factory=dict)
    """Confirms and receipts; a Pulsar receipt gives the place of the message."""
    refused: list[Identity] = field(default_factory=list)
    """Negative confirms; nothing here should cause any."""
    seen: list[Seen] = field(default_factory=list)
    """Every AMQP delivery of the current life, in order."""
    ever_seen: set[Identity] = field(default_factory=set)
    """The messages of every AMQP delivery in earlier lives."""
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
    histories: list[bytes] = field(default_factory=list)
    """The broker's own history of the queue, batch by batch."""
    after_crash: bool = True
    """False if the last stop was an orderly one after all."""
