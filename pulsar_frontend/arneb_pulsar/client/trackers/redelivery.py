"""Redelivery: its delay, and the requests for it.

The rule: single entries can be requested only on Shared and Key_Shared subscriptions; on any other,
requesting one means redelivering everything that the consumer has not acknowledged, since the
broker goes back to the mark-delete position.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe

REDELIVERED_IDS_MAX: Final = 1_000
"""Entries in one REDELIVER_UNACKNOWLEDGED_MESSAGES, as in the official clients: a command must not
keep a broker busy for long."""

REDELIVERED_SINGLY: Final = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""The subscription types on which single entries can be requested."""


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """A delay that grows with every redelivery, like Java's ``MultiplierRedeliveryBackoff``."""

    min_s: float = 1.0
    max_s: float = 60.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.min_s <= self.max_s:
            raise ConfigurationError(
                f"expected 0 < min_s <= max_s, got min_s {self.min_s} and max_s {self.max_s}"
            )
        if self.multiplier < 1:
            raise ConfigurationError(f"expected a multiplier from 1 on, got {self.multiplier}")

    def delay_s(self, redelivery_count: int) -> float:
        """Return the delay in s before the redelivery that follows ``redelivery_count`` others."""
        try:
            return min(self.min_s * self.multiplier ** max(redelivery_count, 0), self.max_s)
        except OverflowError:
            return self.max_s


def redelivery_requests(
    entries: Sequence[EntryId], subscription_type: int
) -> Iterator[list[EntryId]]:
    """Yield the entries to request, one list per command; an empty list requests everything
    unacknowledged."""
    if not entries:
        return
    if subscription_type not in REDELIVERED_SINGLY:
        yield []
        return
    remaining = iter(dict.fromkeys(entries))
    while request := list(islice(remaining, REDELIVERED_IDS_MAX)):
        yield request
