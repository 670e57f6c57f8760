"""Rotation: several brokers of one service, any of which may be asked.

The rule: the one that answered last is asked first. Each call goes round once, from where it began:
concurrent calls may fail at the same time, and must not make it skip a broker that works.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from arneb_pulsar.client.errors import ConnectError, PulsarError, TimedOut

T = TypeVar("T")
Place = TypeVar("Place")

NOBODY_THERE: Final = (ConnectError,)
NO_ANSWER: Final = (ConnectError, TimedOut)


class Rotation(Generic[Place]):
    """The places of a service, at least one."""

    def __init__(self, places: Sequence[Place], passed_over: tuple[type[PulsarError], ...]) -> None:
        """``passed_over``: the errors after which the next one is asked."""
        self._places = list(places)
        self._passed_over = passed_over
        self._first = 0

    def __repr__(self) -> str:
        return f"<Rotation of {len(self._places)}, first {self._places[self._first]}>"

    async def ask(self, ask: Callable[[Place], Awaitable[T]]) -> T:
        """Return the first answer. Raises the last error that another attempt may change, or else
        the last."""
        first = self._first
        errors: list[PulsarError] = []
        for offset in range(len(self._places)):
            which = (first + offset) % len(self._places)
            try:
                answer = await ask(self._places[which])
            except self._passed_over as error:
                errors.append(error)
            else:
                self._first = which
                return answer
        raise next((each for each in reversed(errors) if each.retriable), errors[-1])
