"""A history: what became of a subscription's messages, kept by the broker in a topic of its own.

The rule: a history is off unless it is asked for. It is made of batches, one an entry; a batch is
JSON lines, the first of which says whose it is, and each of the others what happened to a run of
entries (:class:`Happened`). Anybody who reads the topic can read it: it is plain text for clients
of both protocols and for Spark. docs/internals/history.md lists the fields.
"""

from enum import Enum
from typing import Final

from arneb_core.api.entry import EntryHeader, Origin
from arneb_core.api.settings import TopicSettings

HISTORY_PROPERTY: Final = "arneb.history"
"""The property of a Pulsar subscription that asks for a history, by the value ``true``, and of
the topics where histories are kept."""

HISTORY_SUFFIX: Final = "HISTORY"

HISTORY_SETTINGS: Final = TopicSettings(
    retention_ms=7 * 24 * 3_600_000,
    retention_bytes=1024 * 1024 * 1024,
    properties={HISTORY_PROPERTY: "kept here"},
)
"""A week or a gigabyte, whichever is less: nobody has to read it, so only retention keeps it.
Whoever wants another gives the topic a retention, as any other."""


class Happened(Enum):
    """What a line of a history tells; the value is its ``event``."""

    BATCH = "batch"
    """The first line of each batch: whose it is, and where the cursor stands."""
    DELIVERED = "delivered"
    """To a consumer."""
    ACKNOWLEDGED = "acknowledged"
    """By a consumer, or with ``auto`` by its delivery."""
    ACKNOWLEDGED_THROUGH = "acknowledged_through"
    """By a consumer, with all before it (Pulsar's cumulative acknowledgement)."""
    RETURNED = "returned"
    """By a consumer that gave it back (``counted``: a requeue or negative acknowledgement) or
    left; it is delivered again."""
    RESTORED = "restored"
    """An acknowledgement that was part of a failed commit does not count: in flight again."""
    DEPARTED = "departed"
    """It left without an acknowledgement, for a ``reason``; ``dead_lettered``: to an exchange."""
    PURGED = "purged"
    """All up to a place that was not in flight was dropped."""
    SKIPPED = "skipped"
    """All up to a place was, by an administrator or a quota."""
    SOUGHT = "sought"
    """The cursor was moved: the next entry is this one."""
    MISSED = "missed"
    """So many lines could not be kept, for the disk did not keep up."""


def history_topic(topic: str, subscription: str) -> str:
    """The topic that a subscription's history is kept in, named as Pulsar names those of dead
    letters."""
    return f"{topic}-{subscription}-{HISTORY_SUFFIX}"


def history_entry(text: bytes, now_ms: int) -> bytes:
    """An entry with one batch of a history."""
    return EntryHeader(Origin.BROKER, publish_time_ms=now_ms).pack() + text
