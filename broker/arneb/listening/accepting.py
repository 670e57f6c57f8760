"""Accepting: connections are taken as long as the broker itself has descriptors to go on with.

The rule: a connection that would take one of the last descriptors is closed again at once, and a
listener that cannot accept at all pauses. So clients who are here go on as if nothing were, and
the log has one line a second about it at most. In each pass of the loop several are taken, or a
crowd would keep everybody else in the system's queue for as many passes as it has members.
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

LOGGER: Final = logging.getLogger(__name__)

RESERVED_MAX: Final = 32
"""Descriptors that no client gets: for the store to be opened again after a failing disk, for
copies, and for what the interpreter opens by itself."""

RESERVED_PART: Final = 4
"""Of a very small limit only this part of it is reserved."""

REFUSED_PAUSE_S: Final = 0.01
"""Whoever is refused comes again at once; so many a second are enough."""

CAPACITY_PAUSE_S: Final = 0.1
LOG_EVERY_S: Final = 1.0

TAKEN_MORE: Final = 63
"""Connections that are taken after one in the same pass. To begin to serve so many takes some 20
ms, once: a crowd whose members come again as soon as they are sent away is faster than less."""

CAPACITY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""What :meth:`trio.SocketListener.accept` raises when there is nothing left to accept with."""


def is_reserved(descriptor: int) -> bool:
    """Whether so high a descriptor is one of the last. The system gives out the lowest that is
    free, so its number says how many are in use at least."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(RESERVED_MAX, limit // RESERVED_PART)


class RefusalLog:
    """Says how many connections were refused, now and then."""

    def __init__(self, now_s: Callable[[], float] = trio.current_time) -> None:
        self._now_s = now_s
        self._count = 0
        self._said_s = float("-inf")

    def __repr__(self) -> str:
        return f"<RefusalLog {self._count} not told of>"

    def refused(self, why: str) -> None:
        """One more."""
        self._count += 1
        now_s = self._now_s()
        if now_s - self._said_s >= LOG_EVERY_S:
            LOGGER.warning("out of file descriptors: %d connections %s", self._count, why)
            self._said_s, self._count = now_s, 0


class CarefulListener(trio.abc.Listener[trio.SocketStream]):
    """A listener of a server."""

    def __init__(
        self,
        inner: trio.SocketListener,
        log: RefusalLog,
        is_reserved: Callable[[int], bool] = is_reserved,
        more: socket.socket | None = None,
    ) -> None:
        """``more``: the socket that ``inner`` listens at, by which more are taken at once."""
        self._inner = inner
        self._log = log
        self._is_reserved = is_reserved
        self._more = more
        self._taken: deque[trio.SocketStream] = deque()

    @classmethod
    def of(cls, sock: socket.socket, log: RefusalLog) -> Self:
        """The listener of a socket that listens."""
        inner = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        return cls(inner, log, more=sock)

    def __repr__(self) -> str:
        return f"<CarefulListener {self._inner.socket!r}>"

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._inner.socket

    async def accept(self) -> trio.SocketStream:
        """The next connection that there is room for. Not each time a checkpoint."""
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
        """Take those that have come as well, as many as one pass has time for."""
        if self._more is None:
            return
        with suppress(OSError):  # nobody is left, or what is wrong is seen by the next accept
            while len(self._taken) < TAKEN_MORE:
                sock, _ = self._more.accept()
                self._taken.append(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))

    async def aclose(self) -> None:
        """Close the socket, and who was taken and not served."""
        while self._taken:
            await trio.aclose_forcefully(self._taken.pop())
        await self._inner.aclose()
