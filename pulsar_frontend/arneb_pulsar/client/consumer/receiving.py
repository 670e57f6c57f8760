"""Receiving: the ways in which an application takes messages from any consumer.

The rule: all are built on two primitives of a consumer: take a message if there is one now, and
wait until there may be one. Cancellation loses no message.
"""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, Generic, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import ClientClosed, TimedOut
from arneb_pulsar.client.tasks.closing import Closing

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

TURN_MESSAGES: Final = 100
"""Messages taken before other tasks may run: a checkpoint costs as much as ten messages."""

Listener = Callable[[Any, "Message[T]"], "Awaitable[None] | None"]


class Receiving(Closing, Generic[T]):
    """Something that messages can be received from."""

    def __init__(self) -> None:
        self._taken = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self.waiting} messages waiting>"

    @abstractmethod
    def receive_nowait(self) -> Message[T] | None:
        """Return the next message; None if there is none now. Raises the error that ended the
        consumer."""

    @abstractmethod
    async def wait(self) -> None:
        """Wait until another message has come or the consumer has ended."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """How many messages can be received now."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many messages are fetched in advance."""

    @abstractmethod
    async def close(self) -> None:
        """Send pending acknowledgements, and close."""

    async def receive(self, timeout_s: float | None = None) -> Message[T]:
        """Wait for the next message and return it. Raises :class:`TimedOut` after ``timeout_s``
        (None = wait for ever), and the error that ended the consumer. If cancelled, the message
        stays for the next call."""
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
        """Wait until ``messages_max`` messages are there or ``timeout_s`` has passed; return those
        there, up to either bound, but at least one if there is any. The last message may exceed
        ``bytes_max``. If cancelled, all of them stay."""
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
        """Call ``listener``, which may be asynchronous, with each message in turn until the
        consumer is closed. What it raises is logged, and the message stays unacknowledged."""
        async for message in self:
            try:
                done = listener(self, message)
                if isawaitable(done):
                    await done
            except Exception:  # application code: its errors must not stop the next message
                LOG.exception("a listener raised for %r", message)


async def _let_others_run() -> None:
    # The caller holds a message that a cancellation must not lose.
    with anyio.CancelScope(shield=True):
        await checkpoint()
