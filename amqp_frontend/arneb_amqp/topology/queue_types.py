"""Queue types: the kinds of queue that there are, and the words in which queues are described.

The rule: names and units only. What each type takes is for the tables of arguments and of policies
to say.
"""

from enum import Enum
from typing import Final

SECONDS: Final = {
    "Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1,
}  # fmt: skip
"""The units of ``x-max-age`` and of an interval."""


class QueueType(Enum):
    """What ``x-queue-type`` may ask for; the value is the name in that argument."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"

    @property
    def in_words(self) -> str:
        """As RabbitMQ's error texts name it."""
        return f"rabbit_{self.value}_queue"

    @property
    def in_policies(self) -> str:
        """As policies name queues of this type that they apply to."""
        return "streams" if self is QueueType.STREAM else f"{self.value}_queues"


class OverflowPolicy(Enum):
    """What becomes of what is too much; the value is the name in ``x-overflow``."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


def is_age(text: str) -> bool:
    """It is an age: a count and one of the :data:`SECONDS`."""
    count, unit = text[:-1], text[-1:]
    return count.isascii() and count.isdigit() and int(count) > 0 and unit in SECONDS


def age_in_ms(text: str) -> int:
    """The age that ``text`` is."""
    return int(text[:-1]) * SECONDS[text[-1]] * 1000
