"""Receiving: the ways in which an application takes messages, whatever consumer gives them.

The rule: each is made of two things that a consumer has: a message if there is one now, and a wait
until there may be one. Cancelled, no message is lost.
"""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, Generic, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from arneb_pulsar.client.closing import Closing
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import ClientClosed, TimedOut

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

TURN_MESSAGES: Final = 100
"""Messages that are taken without letting other tasks run: a checkpoint costs as much as ten."""

Listener = Callable[[Any, "Message[T]"], "Awaitable[None] | None"]


class Receiving(Closing, Generic[T]):
    """Whatever messages can be received from."""

    def __init__(self) -> None:
        self._taken = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self.waiting} messages waiting>"

    @abstractmethod
    def receive_nowait(self) -> Message[T] | None:
        """The next message; None if there is none now. Raises what ended the consumer."""

    @abstractmethod
    async def wait(self) -> None:
        """Until another message came, or the end."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Messages that are there now."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Messages that are fetched in advance."""

    @abstractmethod
    async def close(self) -> None:
        """Give it up; acknowledgements are flushed."""

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message. Raises :class:`TimedOut`, and what ended the consumer. Cancelled, the
        message stays for the next one who asks."""
        message = self.receive_nowait()
        if message is not None:
            self._taken += 1
            if self._taken >= TURN_MESSAGES:
                self._taken = 0
                await _let_others_run()
            return message
        self._taken = 0
        with anyio.move_on_after(timeout_s):
            while message is None:
                await self.wait()
                message = self.receive_nowait()
        if message is None:
            raise TimedOut(f"expected a message within {timeout_s} s, got none")
        return message

    async def receive_batch(
        self, messages_max: int = 100, bytes_max: int = 10 * 1024 * 1024, timeout_s: float = 0.1
    ) -> list[Message[T]]:
        """The messages that are there once ``messages_max`` are, or the time is up: up to either
        bound, and at least one if there is any. Cancelled, all of them stay."""
        wanted = min(messages_max, self.capacity)
        with anyio.move_on_after(timeout_s):
            while self.waiting < wanted:
                await self.wait()
        found: list[Message[T]] = []
        size = 0
        while len(found) < messages_max and size < bytes_max:
            message = self.receive_nowait()
            if message is None:
                break
            found.append(message)
            size += len(message.data)
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.receive()
        except ClientClosed:
            raise StopAsyncIteration from None

    async def listen(self, listener: "Listener[T]") -> None:
        """Give each message to ``listener``, which may be asynchronous, one after the other, until
        the consumer is closed. What it raises is logged, and the message stays unacknowledged."""
        async for message in self:
            try:
                done = listener(self, message)
                if isawaitable(done):
                    await done
            except Exception:  # an application's own code: the next message is none the worse
                LOG.exception("a listener raised for %r", message)


async def _let_others_run() -> None:
    # Whoever holds a message is not to lose it to a cancellation.
    with anyio.CancelScope(shield=True):
        await checkpoint()
