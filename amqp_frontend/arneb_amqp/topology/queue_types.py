"""Queue types: the kinds of queue and the vocabulary of queues.

The rule: names and units only. The tables of arguments and of policies say what each type takes.
"""

from enum import Enum
from typing import Final

SECONDS: Final = {
    "Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1,
}  # fmt: skip
"""The units of ``x-max-age`` and of an interval."""


class QueueType(Enum):
    """The values of ``x-queue-type``."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"

    @property
    def in_words(self) -> str:
        """Its name in RabbitMQ's error texts."""
        return f"rabbit_{self.value}_queue"

    @property
    def in_policies(self) -> str:
        """Its name as the target of policies."""
        return "streams" if self is QueueType.STREAM else f"{self.value}_queues"


class OverflowPolicy(Enum):
    """The values of ``x-overflow``: what happens to a message too many."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class DeadLetterStrategy(Enum):
    """The values of ``x-dead-letter-strategy``: what happens to a dead letter no queue takes."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"


def is_age(text: str) -> bool:
    """Whether ``text`` is an age: a count and one of the :data:`SECONDS`."""
    count, unit = text[:-1], text[-1:]
    return count.isascii() and count.isdigit() and int(count) > 0 and unit in SECONDS


def age_in_ms(text: str) -> int:
    """Return the age ``text`` in ms."""
    return int(text[:-1]) * SECONDS[text[-1]] * 1000
