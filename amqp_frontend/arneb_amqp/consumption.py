"""What ``basic.consume`` asks for, as the session that was asked and the topology that does it
both know it.

The rule: names are expanded, a tag is there, and nothing is judged yet.
"""

from dataclasses import dataclass, field

from arneb_amqp.wire.tables import Table
from arneb_core.api.windows import Window


@dataclass(frozen=True, slots=True)
class Consumption:
    """A consumer to be."""

    queue: str
    tag: str
    no_ack: bool
    exclusive: bool
    arguments: Table
    windows: tuple[Window, ...]
    """The consumer's own and its channel's."""
    channel: int = field(default=0, compare=False)
    """The number of its channel, for whoever looks on."""
    answers: bool = field(default=False, compare=False)
    """It takes the answers to its channel, under a name that is made with it."""
