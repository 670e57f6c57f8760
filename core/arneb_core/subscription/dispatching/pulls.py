"""Pulls: single messages delivered on request, outside permits.

The rule: a pull is answered "nothing is ready" only when that is certain; until then it takes
nothing and is told to ask again.
"""

from dataclasses import dataclass
from enum import Enum

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.subscription.departures.limit_enforcer import LimitEnforcer
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready, Source
from arneb_core.subscription.state.in_flight import InFlight
from arneb_core.subscription.state.state import SubscriptionState


class Unanswered(Enum):
    """Why a pull brought no message."""

    EMPTY = "nothing is ready"
    AGAIN = "more is being looked through: ask when others had their turn"
    LATER = "something is under way: ask behind the subscription's next turn"


@dataclass(slots=True, eq=False)
class Pulls:
    """Answers the pulls of one subscription."""

    _state: SubscriptionState
    _ready: Ready
    _delivery: Delivery
    _enforcer: LimitEnforcer

    def __repr__(self) -> str:
        return f"<Pulls from {self._ready!r}>"

    def pull(self, consumer: InFlight) -> Deliveries | Unanswered:
        """Return one message for ``consumer``. Raises :class:`.StoreFailed` when the next cannot
        be read."""
        enforcer = self._enforcer
        while consumer.attached and not self._state.is_fenced:
            source = self._ready.first()
            at_hand = source.peek()
            if at_hand is not None:
                if enforcer.must_go(at_hand[1]):
                    if not enforcer.enforce(has_room=False):
                        return Unanswered.LATER  # the dead-letter target has no room
                    continue
                run = self._take(consumer, source, *at_hand)
                if run is not None:
                    if self._state.is_expiring and not self._delivery.has_room:
                        # A pull's answer counts what is left, without what has expired.
                        enforcer.enforce(has_room=False)
                    return run
            elif not source:
                continue  # the log no longer had any of them
            elif source.is_sorting:
                return Unanswered.AGAIN
            elif source.fetch.failure is not None:
                raise source.fetch.failure
            elif source.fetch.is_under_way:
                return Unanswered.LATER
            else:
                break
        return Unanswered.EMPTY

    def _take(
        self, consumer: InFlight, source: Source, positions: list[Position], entries: list[bytes]
    ) -> Deliveries | None:
        position, entry = positions[0], entries[0]
        run = self._delivery.pull(consumer, position, entry)
        if self._delivery.is_done_with(position, entry):
            source.take([position])
        if self._state.ahead.is_spent:
            self._state.reader.drop_cached()
        return run
