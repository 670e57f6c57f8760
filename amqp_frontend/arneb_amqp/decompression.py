"""Decompression: a run that takes long to decompress is decompressed in a thread.

The rule: only a few threads decompress at the same time, on whoever's behalf, because each may hold
128 MiB and keeps a processor busy.
"""

from typing import Final

import trio

from arneb_amqp.session.compressed_runs import IN_A_TURN, Messages, decompressed_sizes
from arneb_amqp.session.consume.unbatching import unbatched
from arneb_core.api.subscriptions.deliveries import Deliveries

THREADS: Final = trio.CapacityLimiter(2)


async def decompressed(run: Deliveries, queue: str) -> Messages:
    """As :func:`.unbatched`, in a thread if there is much to decompress."""
    if sum(decompressed_sizes(run.entries)) <= IN_A_TURN:
        return unbatched(run, queue)
    return await in_thread(run, queue)


async def in_thread(run: Deliveries, queue: str) -> Messages:
    """As :func:`.unbatched`, in a thread."""
    return await trio.to_thread.run_sync(unbatched, run, queue, limiter=THREADS)
