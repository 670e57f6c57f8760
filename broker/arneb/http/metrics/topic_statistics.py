"""Statistics of all topics, some at a time.

The rule: whoever lists topics leaves others their turns.
"""

from collections.abc import AsyncIterator
from typing import Final

import trio

from arneb_core.api.core import Core
from arneb_core.api.statistics import TopicStatistics

ROWS_PER_TURN: Final = 50
"""Topics and subscriptions looked at between two checkpoints: about a millisecond in which nobody
is served."""


async def topic_statistics(core: Core) -> AsyncIterator[TopicStatistics]:
    """The statistics of every topic, in the order of their names."""
    rows = 0
    for name in sorted(core.topics):
        # A topic may go while we were at a checkpoint.
        if topic := core.topics.get(name):
            found = topic.statistics()
            yield found
            rows += 1 + len(found.subscriptions)
        if rows >= ROWS_PER_TURN:
            rows = 0
            await trio.lowlevel.checkpoint()
