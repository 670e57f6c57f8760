"""Settings: what a topic is made with.

The rule: they are kept with the topic, so whoever makes it decides for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is made with. ``retention_*`` keep acknowledged entries: -1 without end, 0
    not at all, both 0 what the broker keeps by default; an entry goes when it is over either
    bound."""

    durable: bool = True
    retention_ms: int = 0
    retention_bytes: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
