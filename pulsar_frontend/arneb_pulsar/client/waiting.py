"""Waiting: one result that one or several tasks wait for.

The rule: whoever sets it never waits and may be any synchronous code; it is set once, and what
comes later is left out.
"""

from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Outcome(Generic[T]):
    """A value, or an error, that comes later."""

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
        """It has come."""
        return self._event.is_set()

    def set(self, value: T) -> None:
        """It is ``value``."""
        if not self._event.is_set():
            self._value = value
            self._event.set()

    def fail(self, error: BaseException) -> None:
        """There is none, and this is why."""
        if not self._event.is_set():
            self._error = error
            self._event.set()

    async def wait(self) -> T:
        """The value; raises the error. Cancelled, it changes nothing."""
        await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Bell:
    """Rings for everybody who waits at that moment; nobody waits in vain, some wake for nothing."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def __repr__(self) -> str:
        return f"<Bell {'awaited' if self._event else 'idle'}>"

    def ring(self) -> None:
        """Wake all who wait."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Until it rings next."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
