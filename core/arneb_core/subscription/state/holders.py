"""Holders: which consumer of a subscription has an entry, for acknowledgements by others.

The rule: nothing is kept until a consumer acknowledges what it does not hold, and asking every
consumer would be long; from then on each delivery is noted. What is noted is where an entry went
last, so it may have left since: whoever asks looks whether the holder still has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.dispatch import Receiver
from arneb_core.subscription.state.in_flight import InFlight

FEW: Final = 16
"""So many consumers are asked one by one."""

STALE_MAX: Final = 10_000
"""Notes of entries that have left, besides as many as there were entries in flight at first."""


class Holders:
    """Where the entries in flight at the consumers of one subscription are."""

    __slots__ = ("_consumers", "_few", "_last", "_most", "is_kept")

    def __init__(self, consumers: Mapping[Receiver, InFlight], few: int = FEW) -> None:
        """``consumers``: those attached, as they come and go; up to ``few`` are asked in turn."""
        self._consumers = consumers
        self._few = few
        self._last: dict[Position, InFlight | None] = {}
        """Who took an entry last; None: parts of it, maybe of several."""
        self._most = 0
        self.is_kept = False
        """Deliveries are to be noted."""

    def __repr__(self) -> str:
        return f"<Holders of {len(self._last)} entries>"

    def took(self, consumer: InFlight, whole: Iterable[Position]) -> None:
        """Note that ``consumer`` has these as a whole."""
        self._last.update(dict.fromkeys(whole, consumer))
        self._limit()

    def divided(self, positions: Iterable[Position]) -> None:
        """Note that several consumers may have parts of these."""
        self._last.update(dict.fromkeys(positions))
        self._limit()

    def of(self, positions: Sequence[Position]) -> list[tuple[InFlight, Sequence[Position]]]:
        """Return all consumers that may have something of ``positions``, each with what it may
        have of them."""
        consumers = self._consumers
        if len(consumers) <= self._few:
            return [(consumer, positions) for consumer in consumers.values()]
        if not self.is_kept:
            self._begin()
        last = self._last
        found: dict[InFlight, list[Position]] = {}
        anywhere: list[Position] = []
        for position in positions:
            if position in last:
                holder = last[position]
                if holder is None:
                    anywhere.append(position)
                else:
                    found.setdefault(holder, []).append(position)
        pairs: list[tuple[InFlight, Sequence[Position]]] = [*found.items()]
        if anywhere:
            pairs += [(consumer, anywhere) for consumer in consumers.values()]
        return pairs

    def _begin(self) -> None:
        last = self._last
        for consumer in self._consumers.values():
            last.update(dict.fromkeys(consumer.whole, consumer))
            last.update(dict.fromkeys(consumer.masks))
        self._most = 2 * len(last) + STALE_MAX
        self.is_kept = True

    def _limit(self) -> None:
        """Forget everything once most of it must have left, or few consumers are left to ask; it
        is gathered anew when needed."""
        if len(self._last) > self._most or len(self._consumers) <= self._few:
            self._last = {}
            self.is_kept = False
