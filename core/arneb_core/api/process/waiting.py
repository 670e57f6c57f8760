"""Waiting for a commit or a read: from callbacks to ``await``."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

from arneb_core.api.errors import CommitFailed, CoreError, StoreFailed
from arneb_core.api.process.callbacks import Done

T = TypeVar("T")

TOGETHER_MAX: Final = 32
"""Changes made at the same time. They share a commit, which this many fill well enough, and run in
one pass, for which everybody else waits: creating a queue takes a quarter of a millisecond."""


async def durable(submit: Callable[[Done], object]) -> None:
    """Wait until what ``submit`` submits is on disk.

    Raises its :class:`CommitFailed`. If cancelled while waiting, the commit continues.
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
    """Return the answer to ``ask``. Raises :class:`StoreFailed` if that is the answer."""
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
    """Make independent changes at the same time, so that they share commits. Raises the first
    :class:`CoreError`, once the changes begun with it are done."""
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
