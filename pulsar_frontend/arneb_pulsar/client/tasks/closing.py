"""Closing: the base of everything that a client makes and an application closes: by a call, at the
end of an ``async with``, or with the client.

The rule: :meth:`Closing.close` may be called again, and then does nothing.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Something that can be closed, also as an ``async with``."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether it can no longer be used."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
