"""Statistics of all topics, some at a time.

The rule: listing topics yields to other tasks.
"""

from collections.abc import AsyncIterator
from typing import Final

import trio

from arneb_core.api.core import Core
from arneb_core.api.topics.statistics import TopicStatistics

ROWS_PER_TURN: Final = 50
"""Topics and subscriptions visited between two checkpoints: about a millisecond."""


async def topic_statistics(core: Core) -> AsyncIterator[TopicStatistics]:
    """Yield the statistics of every topic, by name."""
    rows = 0
    for name in sorted(core.topics):
        # A topic may be deleted during a checkpoint.
        if topic := core.topics.get(name):
            found = topic.statistics()
            yield found
            rows += 1 + len(found.subscriptions)
        if rows >= ROWS_PER_TURN:
            rows = 0
            await trio.lowlevel.checkpoint()
