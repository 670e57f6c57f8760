"""The cost of publishes beyond putting them into a queue, in units of a turn.

The rule: a unit is about a microsecond of an idle machine, and work that may be needed counts as
needed.
"""

from collections.abc import Sequence
from typing import Final

from arneb_amqp.session.context import VhostContext

SINGLE_WORK: Final = 10
"""The cost of publishing a message by itself and not with its run."""

ROUTE_WORK: Final = 20
"""The cost of routing a message by its headers."""

NAMED_WORK: Final = 4
"""The same if a message with equal headers was routed before."""

DEAD_LETTER_WORK: Final = 20
"""The cost of making a dead letter of a message that a full queue refuses."""

TRACE_WORK: Final = 50
"""The cost of copying a message for tracing."""

PROPERTY_BYTES_PER_WORK: Final = 4
"""Bytes of properties read in one unit."""


def copy_work(vhost: VhostContext, queues: Sequence[str]) -> int:
    """Return the work of a message for ``queues`` that is copied or dead-lettered at once; 0 = it
    is neither."""
    if vhost.is_traced:
        return TRACE_WORK
    return DEAD_LETTER_WORK if vhost.passes_refused_on(queues) else 0
