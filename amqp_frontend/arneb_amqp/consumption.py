"""A consumption: the content of ``basic.consume``, shared by session and topology.

The rule: names are expanded, the tag is set, and nothing is checked yet.
"""

from dataclasses import dataclass, field

from arneb_amqp.wire.tables import Table
from arneb_core.api.subscriptions.windows import Window


@dataclass(frozen=True, slots=True)
class Consumption:
    """A consumer to be attached."""

    queue: str
    tag: str
    no_ack: bool
    exclusive: bool
    arguments: Table
    windows: tuple[Window, ...]
    """The consumer's own and its channel's."""
    channel: int = field(default=0, compare=False)
    """The number of its channel."""
    answers: bool = field(default=False, compare=False)
    """Whether it consumes direct replies to its channel, from a queue that is made with it."""
