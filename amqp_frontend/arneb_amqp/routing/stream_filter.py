"""The stream filter: which messages one consumer of a stream sees.

The rule: pure data; a stream's messages go to each of its consumers, and the filter selects.

Source: RabbitMQ's documentation of streams, offset tracking and filtering (3.13).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """A stream consumer's selection. ``queue``: as in error texts. ``offset_min``: the first
    message. ``values``: None = any filter value; else one of these, or none if
    ``match_unfiltered``."""

    queue: str
    offset_min: int = 0
    values: frozenset[str] | None = None
    match_unfiltered: bool = False
