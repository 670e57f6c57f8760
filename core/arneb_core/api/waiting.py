"""Waiting for a commit or a read: from the world of call-backs to ``await``."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

from arneb_core.api.callbacks import Done
from arneb_core.api.errors import CommitFailed, CoreError, StoreFailed

T = TypeVar("T")

TOGETHER_MAX: Final = 32
"""Changes made at the same time: they share a commit, which they fill well enough, and have their
turns in one pass, for which whoever else is there waits: a queue that is made takes a quarter of a
millisecond."""


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


async def answered(ask: Callable[[Callable[[T | StoreFailed], None]], object]) -> T:
    """What ``ask`` brings to whoever it is given. Raises :class:`StoreFailed` if it is that."""
    answers: list[T | StoreFailed] = []
    finished = trio.Event()

    def then(found: T | StoreFailed) -> None:
        answers.append(found)
        finished.set()

    ask(then)
    await finished.wait()
    (found,) = answers
    if isinstance(found, StoreFailed):
        raise found
    return found


async def together(changes: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Make changes that have nothing to do with one another at the same time, so that they share
    commits. Raises the first :class:`CoreError`, when those that were begun with it are done."""
    failures: list[CoreError] = []

    async def make(change: Callable[[], Awaitable[object]]) -> None:
        try:
            await change()
        except CoreError as error:
            failures.append(error)

    for start in range(0, len(changes), TOGETHER_MAX):
        async with trio.open_nursery() as nursery:
            for change in changes[start : start + TOGETHER_MAX]:
                nursery.start_soon(make, change)
        if failures:
            raise failures[0]
