"""Opening runs: what takes long to unpack is unpacked in a thread.

The rule: few threads unpack at the same time, whoever asks, because each may hold 128 MiB and fills
a processor.
"""

from typing import Final

import trio

from arneb_amqp.session.consume.unbatching import unbatched
from arneb_amqp.session.unopened import IN_A_TURN, Messages, unpacked_sizes
from arneb_core.api.subscriptions.deliveries import Deliveries

THREADS: Final = trio.CapacityLimiter(2)


async def opened(run: Deliveries, queue: str) -> Messages:
    """As :func:`.unbatched`, in a thread if much must be unpacked."""
    if sum(unpacked_sizes(run.entries)) <= IN_A_TURN:
        return unbatched(run, queue)
    return await in_thread(run, queue)


async def in_thread(run: Deliveries, queue: str) -> Messages:
    """As :func:`.unbatched`, in a thread."""
    return await trio.to_thread.run_sync(unbatched, run, queue, limiter=THREADS)
