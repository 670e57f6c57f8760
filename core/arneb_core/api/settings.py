"""Settings: what a topic is made with, and what it keeps though nobody needs it any more.

The rule: what a topic is made with is kept with it, so whoever makes it decides for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EXCLUSIVE: Final = "exclusive"
"""The property of topics that belong to one connection of one frontend, which is its value: the
others' clients neither add to them nor join those who read them, and do not remove them."""

WITHOUT_END: Final = -1
"""Of a retention: kept however old, or however much, it is."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is made with. ``retention_*`` keep acknowledged entries: -1 without end, 0
    not at all, both 0 what the broker keeps by default; an entry goes when it is over either
    bound. ``ledger_bytes_max``: from what size on the log goes on in a new ledger, which is the
    grain of retention; 0 = as the broker does."""

    durable: bool = True
    retention_ms: int = 0
    retention_bytes: int = 0
    ledger_bytes_max: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, and how much, acknowledged entries stay."""

    ms: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        """Something is asked for."""
        return bool(self.ms or self.bytes)


NOTHING_KEPT: Final = Retention()
