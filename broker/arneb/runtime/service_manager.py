"""The service manager: systemd is told when the broker serves, stops, and is alive.

The rule: what is said goes as one datagram to the socket that ``NOTIFY_SOCKET`` names, and nobody
waits for an answer; without that variable nothing is said.
"""

import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, Self

import trio

LOGGER: Final = logging.getLogger(__name__)

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PID: Final = "WATCHDOG_PID"

Send = Callable[[bytes], None]


class ServiceManager:
    """Whoever started the process and wants to know how it is."""

    def __init__(self, send: Send | None = None) -> None:
        self._send = send

    def __repr__(self) -> str:
        return f"<ServiceManager {'that listens' if self._send else 'that is not there'}>"

    @classmethod
    @asynccontextmanager
    async def of_environment(
        cls, environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[Self]:
        """The one that the environment names; it is told that the process is alive, if it wants to
        be, for as long as the block is open."""
        given = os.environ if environment is None else environment
        address = given.get(SOCKET, "")
        if not address.startswith(("/", "@")):
            yield cls()
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            place = f"\0{address[1:]}" if address.startswith("@") else address

            def send(message: bytes) -> None:
                sock.sendto(message, place)

            manager = cls(send)
            async with trio.open_nursery() as nursery:
                if (every_s := _watchdog_s(given)) > 0:
                    nursery.start_soon(manager._keep_alive, every_s)
                yield manager
                nursery.cancel_scope.cancel()

    def ready(self) -> None:
        """Clients are served, also after a reload."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """The process is about to end."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """What is shown by ``systemctl status``."""
        self._tell(f"STATUS={text}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """For a block in which settings are read again."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={now_us}")
        try:
            yield
        finally:
            self.ready()

    async def _keep_alive(self, every_s: float) -> None:
        while True:
            self._tell("WATCHDOG=1")
            await trio.sleep(every_s)

    def _tell(self, message: str) -> None:
        if self._send is None:
            return
        try:
            self._send(message.encode())
        except OSError as error:  # it is full or gone: nothing hangs on it
            LOGGER.warning("cannot tell the service manager %r: %s", message, error)


NO_MANAGER: Final = ServiceManager()


def _watchdog_s(given: Mapping[str, str]) -> float:
    """How often to say that the process is alive, twice as often as asked for; 0: never."""
    if given.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid()):
        return 0.0
    with suppress(ValueError):
        return int(given.get(WATCHDOG, "0")) / 1e6 / 2
    return 0.0
