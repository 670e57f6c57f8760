"""Traffic: counts of messages through a vhost's exchanges and queues since the broker started.

The rule: plain counters, added to once a run in the turn that handles it; nobody is notified, and
readers take differences. The counts of a deleted exchange or queue stay in the sums of its vhost,
so those never fall.
"""

from collections import Counter
from dataclasses import dataclass, field

from arneb_core.api.subscriptions.limits import Departure, Fate


@dataclass(slots=True, eq=False)
class ExchangeTraffic:
    """The traffic of one exchange, or of several together."""

    published_in: int = 0
    """Messages published to it."""
    published_out: int = 0
    """The same, counted once for each queue they went to."""

    def add(self, other: "ExchangeTraffic") -> None:
        """Add the counts of ``other``."""
        self.published_in += other.published_in
        self.published_out += other.published_out


@dataclass(slots=True, eq=False)
class Consumed:
    """Messages that consumers have received from some queues."""

    delivered: int = 0
    """Delivered to consumers that acknowledge."""
    delivered_no_ack: int = 0
    got: int = 0
    """Pulled by ``basic.get``, to be acknowledged."""
    got_no_ack: int = 0
    got_nothing: int = 0
    """The number of ``basic.get`` that found nothing."""
    redelivered: int = 0
    """Redeliveries among all these."""
    acknowledged: int = 0

    @property
    def handed_out(self) -> int:
        """All delivered or pulled messages."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack

    def add(self, other: "Consumed") -> None:
        """Add the counts of ``other``."""
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_nothing += other.got_nothing
        self.redelivered += other.redelivered
        self.acknowledged += other.acknowledged


@dataclass(slots=True, eq=False)
class QueueTraffic(Consumed):
    """The traffic of one queue. Everything counted here is counted in ``whole``, too."""

    whole: Consumed = field(default_factory=Consumed)
    """The sum over all queues of its type in its vhost."""

    def deliver(self, count: int, redelivered: int, *, no_ack: bool) -> None:
        """Count deliveries to a consumer."""
        for each in (self, self.whole):
            if no_ack:
                each.delivered_no_ack += count
            else:
                each.delivered += count
            each.redelivered += redelivered


@dataclass(slots=True, eq=False)
class VhostTraffic:
    """The traffic of one vhost.

    Invariant: ``exchanges`` has the present exchanges, by name; ``gone`` is the sum of the past
    ones.
    """

    exchanges: dict[str, ExchangeTraffic] = field(default_factory=dict)
    gone: ExchangeTraffic = field(default_factory=ExchangeTraffic)
    by_type: dict[str, Consumed] = field(default_factory=dict)
    """The sum over all present and past queues of a type."""
    departed: Counter[tuple[str, Departure, Fate]] = field(default_factory=Counter)
    """Messages that left deleted queues without an acknowledgement, by queue type, reason, and what
    became of them."""
    kept_and_taken: int = 0
    """Dead letters that were kept until queues took them, and are taken."""
    to_confirm: int = 0
    """Messages of publishers that asked for confirms."""
    confirmed: int = 0
    returned: int = 0
    """Messages that went to no queue and were returned."""
    dropped: int = 0
    """Messages that went to no queue and were dropped."""
    queues_declared: int = 0
    """Including those that already existed."""
    queues_created: int = 0
    queues_deleted: int = 0

    def published(self) -> ExchangeTraffic:
        """Return the sum over all present and past exchanges."""
        found = ExchangeTraffic()
        for each in (self.gone, *self.exchanges.values()):
            found.add(each)
        return found

    def add(self, other: "VhostTraffic") -> None:
        """Add the counts of ``other``, its exchanges counted as past."""
        self.gone.add(other.published())
        for name, consumed in other.by_type.items():
            self.of_type(name).add(consumed)
        self.departed.update(other.departed)
        self.kept_and_taken += other.kept_and_taken
        self.to_confirm += other.to_confirm
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
        self.queues_declared += other.queues_declared
        self.queues_created += other.queues_created
        self.queues_deleted += other.queues_deleted

    def of_type(self, name: str) -> Consumed:
        """Return the sum over all queues of that type."""
        return self.by_type.setdefault(name, Consumed())

    def begin(self, exchange: str) -> None:
        """Begin counting for a new exchange."""
        self.exchanges[exchange] = ExchangeTraffic()

    def end(self, exchange: str) -> None:
        """Keep the counts of a deleted exchange in ``gone``."""
        self.gone.add(self.exchanges.pop(exchange))
