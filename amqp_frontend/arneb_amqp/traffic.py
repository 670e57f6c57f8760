"""Traffic: how many messages have gone through a vhost's exchanges and queues since the broker
started.

The rule: plain counters that whoever handles a run adds to in that turn, by the run; nobody is
told, and whoever looks takes differences. What an exchange or a queue has counted stays in the sums
of its vhost when it is deleted, so that these never fall.
"""

from collections import Counter
from dataclasses import dataclass, field

from arneb_core.api.limits import Departure


@dataclass(slots=True, eq=False)
class ExchangeTraffic:
    """Of one exchange, or of several together."""

    published_in: int = 0
    """Messages that publishers sent to it."""
    published_out: int = 0
    """The same, once for each queue that they went to."""

    def add(self, other: "ExchangeTraffic") -> None:
        """Count what ``other`` has counted."""
        self.published_in += other.published_in
        self.published_out += other.published_out


@dataclass(slots=True, eq=False)
class Consumed:
    """What consumers have had of some queues, in messages."""

    delivered: int = 0
    """To consumers that acknowledge."""
    delivered_no_ack: int = 0
    got: int = 0
    """By ``basic.get``, to be acknowledged."""
    got_no_ack: int = 0
    got_nothing: int = 0
    """How often ``basic.get`` found nothing."""
    redelivered: int = 0
    """Those of all these that said so."""
    acknowledged: int = 0

    @property
    def handed_out(self) -> int:
        """Delivered or got, in whatever way."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack

    def add(self, other: "Consumed") -> None:
        """Count what ``other`` has counted."""
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_nothing += other.got_nothing
        self.redelivered += other.redelivered
        self.acknowledged += other.acknowledged


@dataclass(slots=True, eq=False)
class QueueTraffic(Consumed):
    """Of one queue. Whoever counts something here counts it in ``whole`` too."""

    whole: Consumed = field(default_factory=Consumed)
    """Of all queues of its type in its vhost."""


@dataclass(slots=True, eq=False)
class VhostTraffic:
    """Of one vhost.

    Invariant: ``exchanges`` has those that there are, by name; ``gone`` is the sum of the others.
    """

    exchanges: dict[str, ExchangeTraffic] = field(default_factory=dict)
    gone: ExchangeTraffic = field(default_factory=ExchangeTraffic)
    by_type: dict[str, Consumed] = field(default_factory=dict)
    """Of all queues of a type that there are and were."""
    departed: Counter[tuple[str, Departure, bool]] = field(default_factory=Counter)
    """Messages that left queues that are gone without an acknowledgement, by the type of the
    queue, the reason, and whether they were dead letters for somebody."""
    to_confirm: int = 0
    """Messages of publishers that asked for confirms."""
    confirmed: int = 0
    returned: int = 0
    """Messages that went to no queue, and back to their publishers."""
    dropped: int = 0
    """Messages that went to no queue, and whose publishers did not mind."""
    queues_declared: int = 0
    """Those that were there already included."""
    queues_created: int = 0
    queues_deleted: int = 0

    def published(self) -> ExchangeTraffic:
        """To all exchanges that there are and were."""
        found = ExchangeTraffic()
        for each in (self.gone, *self.exchanges.values()):
            found.add(each)
        return found

    def add(self, other: "VhostTraffic") -> None:
        """Count what ``other`` has counted, and take its exchanges for gone."""
        self.gone.add(other.published())
        for name, consumed in other.by_type.items():
            self.of_type(name).add(consumed)
        self.departed.update(other.departed)
        self.to_confirm += other.to_confirm
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
        self.queues_declared += other.queues_declared
        self.queues_created += other.queues_created
        self.queues_deleted += other.queues_deleted

    def of_type(self, name: str) -> Consumed:
        """Of all queues of the type of that name."""
        return self.by_type.setdefault(name, Consumed())

    def begin(self, exchange: str) -> None:
        """There is an exchange of that name now."""
        self.exchanges[exchange] = ExchangeTraffic()

    def end(self, exchange: str) -> None:
        """There is none any more."""
        self.gone.add(self.exchanges.pop(exchange))
