"""Waiting: results and signals for which tasks wait.

The rule: setting never waits, and may be done in any synchronous code; a result is set once, and
later ones are ignored.
"""

from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Outcome(Generic[T]):
    """A value or an error to come, for one or several tasks."""

    __slots__ = ("_error", "_event", "_value")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        state = "waiting" if not self._event.is_set() else repr(self._error or self._value)
        return f"<Outcome {state}>"

    @property
    def is_set(self) -> bool:
        """Whether the value or the error has come."""
        return self._event.is_set()

    def set(self, value: T) -> None:
        """Set the value, unless something was set before."""
        if not self._event.is_set():
            self._value = value
            self._event.set()

    def fail(self, error: BaseException) -> None:
        """Set the error, unless something was set before."""
        if not self._event.is_set():
            self._error = error
            self._event.set()

    async def wait(self) -> T:
        """Wait for the value and return it, or raise the error. Cancelling changes nothing."""
        await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Bell:
    """Wakes all tasks that wait at that moment. A task may wake without reason, so check again."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def __repr__(self) -> str:
        return f"<Bell {'awaited' if self._event else 'idle'}>"

    def ring(self) -> None:
        """Wake all waiting tasks."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Wait for the next ring."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
