"""Work: what publishes cost beside being put into a queue, in units of a turn.

The rule: a unit is about a microsecond of an idle machine, and what may be needed counts as needed.
"""

from collections.abc import Sequence
from typing import Final

from arneb_amqp.session.context import VhostContext

ROUTE_WORK: Final = 20
"""To look a message's headers up."""

NAMED_WORK: Final = 4
"""The same if others with the same headers went there before."""

DEAD_LETTER_WORK: Final = 20
"""To make a dead letter of a message that a full queue refuses."""

TRACE_WORK: Final = 50
"""To copy a message for who traces."""

PROPERTY_BYTES_PER_WORK: Final = 4
"""How many bytes of properties are read."""


def copy_work(vhost: VhostContext, queues: Sequence[str]) -> int:
    """What each message for ``queues`` costs of which another is made at once; 0 = none is."""
    if vhost.is_traced:
        return TRACE_WORK
    return DEAD_LETTER_WORK if vhost.passes_refused_on(queues) else 0
