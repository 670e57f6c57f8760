"""Rotation: several brokers of one service, any of which may be asked.

The rule: the one that answered last is asked first. Each call goes round once, from where it began:
concurrent calls may fail at the same time, and must not make it skip a broker that works.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from arneb_pulsar.client.errors import ConnectError, PulsarError, TimedOut

T = TypeVar("T")
Server = TypeVar("Server")

NOBODY_THERE: Final = (ConnectError,)
NO_ANSWER: Final = (ConnectError, TimedOut)


class Rotation(Generic[Server]):
    """The servers of a service, at least one."""

    def __init__(
        self, servers: Sequence[Server], passed_over: tuple[type[PulsarError], ...]
    ) -> None:
        """``passed_over``: the errors after which the next one is asked."""
        self._servers = list(servers)
        self._passed_over = passed_over
        self._first = 0

    def __repr__(self) -> str:
        return f"<Rotation of {len(self._servers)}, first {self._servers[self._first]}>"

    async def ask(self, ask: Callable[[Server], Awaitable[T]]) -> T:
        """Return the first answer. Raises the last error that another attempt may change, or else
        the last."""
        first = self._first
        errors: list[PulsarError] = []
        for offset in range(len(self._servers)):
            which = (first + offset) % len(self._servers)
            try:
                answer = await ask(self._servers[which])
            except self._passed_over as error:
                errors.append(error)
            else:
                self._first = which
                return answer
        raise next((each for each in reversed(errors) if each.retriable), errors[-1])
