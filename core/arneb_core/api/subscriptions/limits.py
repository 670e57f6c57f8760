"""Limits: what makes entries depart from a subscription by themselves, and where they go.

The rule: the core decides what departs and when; the frontend decides where it goes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from arneb_core.api.entries.expiry import Ttl
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.deliveries import Deliveries


class Departure(Enum):
    """Why an entry leaves a subscription without having been acknowledged."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAX_LENGTH = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class Fate(Enum):
    """What becomes of an entry that departs."""

    DROPPED = "dropped"
    """It is acknowledged, and gone."""
    MOVED = "moved"
    """The dead-letter target gets it."""
    KEPT = "kept"
    """So it does, and keeps it until it is safe elsewhere."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What makes entries depart from a subscription by themselves; None: nothing does.

    An entry's own expiry holds besides ``message_ttl_ms``, whichever comes first. Entries expire at
    the front of the ready ones, and no expired entry is delivered. ``ready_messages_max`` and
    ``ready_bytes_max`` drop from the front. An entry that was released with ``count`` more often
    than ``delivery_limit`` departs.
    """

    message_ttl_ms: Ttl = None
    ready_messages_max: int | None = None
    ready_bytes_max: int | None = None
    delivery_limit: int | None = None
    size_of: Callable[[bytes], int] | None = None
    """The size of an entry for ``ready_bytes_max``, in place of its own. With it
    ``Subscription.ready_bytes`` counts these sizes, and exactly."""
    departing_max: int | None = None
    """How many entries may be on their way to the dead-letter target at once, with 4 KiB for each;
    None: as many as a commit holds. For targets that may keep them for long."""
    waits: bool = True
    """False: an entry that no consumer can take when it comes is dropped. For logs in memory."""


class DeadLetters(Protocol):
    """Takes what departs from a subscription; the frontend implements it."""

    def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
        """Put the entries of ``run``, which are in flight at ``holder``, elsewhere and then
        acknowledge them there, best in the same :class:`~arneb_core.api.core.Unit`: those in
        ``run.masks`` as its parts, the others whole. Called in the event loop; must not block or
        raise. Until then nothing is lost: after a crash the entries are where they were."""
        ...
