"""A nursery that lasts: its tasks outlive the cancellation of who opened it.

The rule: whoever starts it cancels it by itself, as the last thing, when nobody needs its
tasks any more.
"""

import trio


async def keep_nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Keep a nursery open until its own scope is cancelled. To be started with
    :meth:`trio.Nursery.start`: what a stop still has to wait for can be served meanwhile."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            task_status.started(nursery)
            await trio.sleep_forever()
