"""Closing: what a client makes is closed by the application, at the end of its ``async with``, or
with the client.

The rule: :meth:`Closing.close` may be called twice, and the second time does nothing.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Whatever can be closed."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """It can be used no more."""

    @abstractmethod
    async def close(self) -> None:
        """Give it up."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
