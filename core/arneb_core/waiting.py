"""Waiting for a commit: from the call-back world of the committer to ``await``."""

from collections.abc import Callable

import trio

from arneb_core.errors import CommitFailed
from arneb_core.interface import Done


async def durable(submit: Callable[[Done], object]) -> None:
    """Wait until what ``submit`` submits is on disk.

    Raises the :class:`CommitFailed` that it failed with. Cancelled while it waits, the commit
    takes its course.
    """
    finished = trio.Event()
    failure: list[CommitFailed] = []

    def done(error: CommitFailed | None) -> None:
        if error is not None:
            failure.append(error)
        finished.set()

    submit(done)
    await finished.wait()
    if failure:
        raise failure[0]
