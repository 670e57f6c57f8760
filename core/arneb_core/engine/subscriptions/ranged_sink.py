"""Ranged sinks: deliver to an exclusive consumer that asks for only some of the keys.

The rule: entries with other keys are passed over: they stay with the consumer, unacknowledged and
undelivered, and use none of its permits, so that the next consumer gets them. Source: Pulsar
``PersistentDispatcherSingleActiveConsumer``, ``isKeyHashRangeFiltered``.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import compress

from arneb_core.api.subscriptions.consumer import Sink
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.key_sharing import SlotRange
from arneb_core.dispatch.selector import key_hashes, slots_of


class RangedSink:
    """Passes on entries whose key is in one of ``ranges``, which are disjoint and may be thousands.
    ``flow`` gives permits back."""

    __slots__ = ("_firsts", "_flow", "_ranges", "_sink")

    def __init__(
        self, sink: Sink, ranges: Sequence[SlotRange], flow: Callable[[int], None]
    ) -> None:
        self._sink = sink
        self._ranges = sorted(ranges)
        self._firsts = [first for first, _ in self._ranges]
        self._flow = flow

    def __repr__(self) -> str:
        return f"<RangedSink {len(self._ranges)} ranges of {self._sink!r}>"

    def deliver(self, run: Deliveries) -> None:
        """Pass on the part of the run that is in the ranges."""
        slots = slots_of(key_hashes(run.positions, run.entries))
        wanted = list(map(self._is_in, slots))
        if not all(wanted):
            self._flow(sum(compress(run.sizes(), [not each for each in wanted])))
            positions = list(compress(run.positions, wanted))
            run = Deliveries(
                positions,
                list(compress(run.entries, wanted)),
                run.redelivered and run.redelivered.intersection(positions),
                run.redelivery_counts,
                run.masks,
            )
        if run.positions:
            self._sink.deliver(run)

    def _is_in(self, slot: int) -> bool:
        index = bisect_right(self._firsts, slot) - 1
        return index >= 0 and slot <= self._ranges[index][1]

    def active_changed(self, active: bool) -> None:
        """Pass it on."""
        self._sink.active_changed(active)

    def closed_by_core(self, reason: str) -> None:
        """Pass it on."""
        self._sink.closed_by_core(reason)
