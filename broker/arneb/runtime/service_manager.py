"""The service manager: systemd is told when the broker serves, stops, and is alive.

The rule: each report is one datagram to the socket that ``NOTIFY_SOCKET`` names, and nobody waits
for an answer; without that variable nothing is reported.
"""

import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, Self

import trio

logger = logging.getLogger(__name__)

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PID: Final = "WATCHDOG_PID"

Send = Callable[[bytes], None]


class ServiceManager:
    """The service manager that started the process, if any."""

    def __init__(self, send: Send | None = None) -> None:
        self._send = send

    def __repr__(self) -> str:
        return f"<ServiceManager {'that listens' if self._send else 'that is not there'}>"

    @classmethod
    @asynccontextmanager
    async def of_environment(
        cls, environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[Self]:
        """Yield the service manager that the environment names. While the block runs, it is told
        that the process is alive, if it asked for that."""
        given = os.environ if environment is None else environment
        address = given.get(SOCKET, "")
        if not address.startswith(("/", "@")):
            yield cls()
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            path = f"\0{address[1:]}" if address.startswith("@") else address

            def send(message: bytes) -> None:
                sock.sendto(message, path)

            manager = cls(send)
            async with trio.open_nursery() as nursery:
                if (every_s := _watchdog_s(given)) > 0:
                    nursery.start_soon(manager._keep_alive, every_s)
                yield manager
                nursery.cancel_scope.cancel()

    def ready(self) -> None:
        """Report that clients are served, also after a reload."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Report that the process is about to end."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """Set the text that ``systemctl status`` shows."""
        self._tell(f"STATUS={text}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report a reload while the block runs."""
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
        except OSError as error:  # the socket is full or gone, which is harmless
            logger.warning("cannot tell the service manager %r: %s", message, error)


NO_MANAGER: Final = ServiceManager()


def _watchdog_s(given: Mapping[str, str]) -> float:
    """Return the interval of keep-alive reports, half of the one asked for; 0: none."""
    if given.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid()):
        return 0.0
    with suppress(ValueError):
        return int(given.get(WATCHDOG, "0")) / 1e6 / 2
    return 0.0
