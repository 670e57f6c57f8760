"""A hostile client: ten connections to one listener that send as much as they can and read nothing.

``python -m tests.attack.hostile LISTENER ADDRESS SECONDS SEED [THEME]``; ``ADDRESS`` is a port, or
the path of a socket.

The rule: what it sends is determined by the seed. When the broker closes a connection, as it may,
another one begins with the next theme.
"""

import os
import random
import selectors
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.attack import amqp, control, http, management, pulsar
from tests.attack.dialing import dial

CONNECTIONS: Final = 10
"""As many as once made a broker use 20 GiB."""

STALLED_S: Final = 5.0
"""A connection from which the broker has read nothing for this long has had its effect; another one
follows."""

Theme = Callable[[random.Random], bytes]

LISTENERS: Final[Mapping[str, tuple[Callable[[], bytes], Mapping[str, Theme]]]] = {
    "amqp": (amqp.opening, amqp.THEMES),
    "pulsar": (pulsar.opening, pulsar.THEMES),
    "http": (http.opening, http.THEMES),
    "http-management": (management.opening, management.THEMES),
    "http-pulsar": (http.opening, http.ADMIN_THEMES),
    "control": (control.opening, control.THEMES),
}


class Flood:
    """One connection."""

    def __init__(self, address: str, opening: bytes, theme: bytes) -> None:
        self.socket = dial(address, blocking=True)
        self.socket.setblocking(False)
        self._left = memoryview(opening + theme)
        self._theme = theme
        self.sent_at = time.monotonic()
        self.bytes = 0

    def go_on(self) -> bool:
        """Send as much as the socket accepts; False if the broker has closed the connection."""
        try:
            sent = self.socket.send(self._left)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.sent_at = time.monotonic()
        self.bytes += sent
        self._left = self._left[sent:] or memoryview(self._theme)
        return True


def flood(
    listener: str, address: str, seconds: float, seed: int, only: str = ""
) -> tuple[int, int]:
    """The number of connections, and the bytes that they sent."""
    chance = random.Random(seed)
    opening, themes = LISTENERS[listener]
    names = [only] if only else list(themes)
    ready: selectors.BaseSelector = selectors.DefaultSelector()
    connections = 0
    floods: list[Flood] = []
    until = time.monotonic() + seconds
    while (now := time.monotonic()) < until:
        while len(ready.get_map()) < CONNECTIONS:
            name = names[connections % len(names)]
            one = Flood(address, opening(), themes[name](chance))
            ready.register(one.socket, selectors.EVENT_WRITE, one)
            floods.append(one)
            connections += 1
        for key, _ in ready.select(0.2):
            one = key.data
            if not one.go_on():
                one.sent_at = 0.0
        for key in list(ready.get_map().values()):
            one = key.data
            if now - one.sent_at > STALLED_S:
                ready.unregister(one.socket)
                one.socket.close()
    return connections, sum(each.bytes for each in floods)


def main() -> None:
    os.nice(5)  # the target is the broker, not the machine
    listener, address, seconds, seed, *only = sys.argv[1:]
    connections, sent = flood(listener, address, float(seconds), int(seed), *only)
    print(f"{listener}: {connections} connections sent {sent / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
