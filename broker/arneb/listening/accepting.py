"""Accepting: connections are accepted as long as the broker keeps descriptors for itself.

The rule: a connection that would take one of the last descriptors is closed at once, and a listener
that cannot accept at all pauses. Connected clients notice nothing, and the log has at most one line
a second about it. Each pass of the loop accepts several connections; accepting only one would make
a new client wait one pass for each connection before it in the system's queue.
"""

import errno
import logging
import resource
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

import trio

logger = logging.getLogger(__name__)

RESERVED_MAX: Final = 32
"""Descriptors that no client gets: for reopening the store after a disk failure, for copies, and
for what the interpreter opens by itself."""

RESERVED_PART: Final = 4
"""Of a very small limit, at most one descriptor in this many is reserved."""

REFUSED_PAUSE_S: Final = 0.01
"""The pause after a refusal. Refused clients reconnect at once; refusing 100 a second is enough."""

CAPACITY_PAUSE_S: Final = 0.1
LOG_EVERY_S: Final = 1.0

TAKEN_MORE: Final = 63
"""How many more connections one pass accepts after the first. Starting to serve this many takes
some 20 ms, once; with fewer, clients that reconnect as soon as they are refused come faster than
they are accepted."""

CAPACITY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""What :meth:`trio.SocketListener.accept` raises when there is nothing left to accept with."""


def is_reserved(descriptor: int) -> bool:
    """Whether a descriptor is one of the last. The system gives out the lowest free number, so the
    number says how many are in use at least."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(RESERVED_MAX, limit // RESERVED_PART)


class RefusalLog:
    """Logs how many connections were refused, once a second at most."""

    def __init__(self, now_s: Callable[[], float] = trio.current_time) -> None:
        self._now_s = now_s
        self._count = 0
        self._said_s = float("-inf")

    def __repr__(self) -> str:
        return f"<RefusalLog {self._count} not told of>"

    def refused(self, why: str) -> None:
        """Count one refused connection."""
        self._count += 1
        now_s = self._now_s()
        if now_s - self._said_s >= LOG_EVERY_S:
            logger.warning("out of file descriptors: %d connections %s", self._count, why)
            self._said_s, self._count = now_s, 0


class CarefulListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that keeps descriptors in reserve."""

    def __init__(
        self,
        inner: trio.SocketListener,
        log: RefusalLog,
        is_reserved: Callable[[int], bool] = is_reserved,
        more: socket.socket | None = None,
    ) -> None:
        """``more`` is the socket of ``inner``, for accepting more connections at once."""
        self._inner = inner
        self._log = log
        self._is_reserved = is_reserved
        self._more = more
        self._taken: deque[trio.SocketStream] = deque()

    @classmethod
    def of(cls, sock: socket.socket, log: RefusalLog) -> Self:
        """Return the listener of a socket that listens."""
        inner = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        return cls(inner, log, more=sock)

    def __repr__(self) -> str:
        return f"<CarefulListener {self._inner.socket!r}>"

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._inner.socket

    async def accept(self) -> trio.SocketStream:
        """Return the next connection that there is room for. Not always a checkpoint."""
        while True:
            if self._taken:
                stream = self._taken.popleft()
            else:
                try:
                    stream = await self._inner.accept()
                except OSError as error:
                    if error.errno not in CAPACITY:
                        raise
                    self._log.refused("wait")
                    await trio.sleep(CAPACITY_PAUSE_S)
                    continue
                self._take_more()
            if not self._is_reserved(stream.socket.fileno()):
                return stream
            self._log.refused("refused")
            await trio.aclose_forcefully(stream)
            await trio.sleep(REFUSED_PAUSE_S)

    def _take_more(self) -> None:
        """Accept the connections already waiting, as many as one pass has time for."""
        if self._more is None:
            return
        with suppress(OSError):  # none is left, or the next accept sees the error
            while len(self._taken) < TAKEN_MORE:
                sock, _ = self._more.accept()
                self._taken.append(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))

    async def aclose(self) -> None:
        """Close the socket, and the connections accepted but not yet served."""
        while self._taken:
            await trio.aclose_forcefully(self._taken.pop())
        await self._inner.aclose()
