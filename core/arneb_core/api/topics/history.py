"""A history: what became of a subscription's messages, kept by the broker in a topic of its own.

The rule: a history is off unless it is asked for. Each entry is a batch of JSON lines: the first
line says whose it is, and each other line what happened to a run of entries (:class:`Happened`).
Any reader of the topic can read it: it is plain text for clients of both protocols and for Spark.
docs/internals/history.md lists the fields.
"""

from enum import Enum
from typing import Final

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.topics.settings import TopicSettings

HISTORY_PROPERTY: Final = "arneb.history"
"""The property of a Pulsar subscription that asks for a history, with the value ``true``, and of
the topics that hold histories."""

HISTORY_SUFFIX: Final = "HISTORY"

HISTORY_SETTINGS: Final = TopicSettings(
    retention_ms=7 * 24 * 3_600_000,
    retention_bytes=1024 * 1024 * 1024,
    properties={HISTORY_PROPERTY: "kept here"},
)
"""A week or a gigabyte, whichever is less: nobody has to read a history, so only retention keeps
it. It can be changed like that of any topic."""


class Happened(Enum):
    """What a line of a history records; the value is its ``event``."""

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
    """An acknowledgement whose commit failed does not count: in flight again."""
    DEPARTED = "departed"
    """It left without an acknowledgement, for a ``reason``; ``dead_lettered``: to an exchange."""
    PURGED = "purged"
    """Everything up to a position was dropped, except what was in flight."""
    SKIPPED = "skipped"
    """Everything up to a position was skipped, by an administrator or a quota."""
    SOUGHT = "sought"
    """The cursor was moved: this is the next entry."""
    MISSED = "missed"
    """This many lines were lost, because the disk did not keep up."""


def history_topic(topic: str, subscription: str) -> str:
    """Return the topic that holds a subscription's history, named as Pulsar names dead-letter
    topics."""
    return f"{topic}-{subscription}-{HISTORY_SUFFIX}"


def history_entry(text: bytes, now_ms: int) -> bytes:
    """Return an entry with one batch of a history."""
    return EntryHeader(Origin.BROKER, publish_time_ms=now_ms).pack() + text
