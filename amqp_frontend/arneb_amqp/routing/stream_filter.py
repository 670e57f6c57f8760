"""What one consumer of a stream is to see: from which message on, and with which filter values.

The rule: pure data; a stream's messages go to each of its consumers, and this says which ones.

Source: RabbitMQ's documentation of streams, offset tracking and filtering (3.13).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """What a consumer of a stream asked for. ``queue``: as in error texts. ``offset_min``: from
    which message on. ``values``: None = whatever filter value a message has; else one of these,
    or none at all if ``match_unfiltered``."""

    queue: str
    offset_min: int = 0
    values: frozenset[str] | None = None
    match_unfiltered: bool = False
