"""A crowd: thousands of clients at one listener who say little or nothing, and never leave.

``python -m tests.attack.crowd ADDRESS SECONDS SEED [COUNT]``; ``ADDRESS`` is a port, or the path of
a socket.

The rule: each client has one manner, and keeps to it. Clients that the broker disconnects come
again, at a limited rate. The total number of clients, and the largest number at once, are printed.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.attack.dialing import dial
from tests.attack.requests import HOST, get, put

COUNT: Final = 2_000
"""Twice as many as an HTTP listener admits."""

COME_AGAIN_A_SECOND: Final = 500
"""The highest rate of new clients: neither the kernel's accept queue nor the machine is the
target."""

Manner = Callable[[float, random.Random], bytes]
"""What a client sends, called once a second with the seconds since it connected."""


def silent(_: float, __: random.Random) -> bytes:
    """Sends nothing at all."""
    return b""


def drips_a_head(since_s: float, _: random.Random) -> bytes:
    """Sends one header per second, and never the last."""
    return f"GET / HTTP/1.1\r\n{HOST}".encode() if since_s < 1 else b"x-more: y\r\n"


def drips_a_body(since_s: float, _: random.Random) -> bytes:
    """Sends one byte per second of a very long body."""
    head = f"PUT /api/alarms HTTP/1.1\r\n{HOST}content-length: 900000\r\n\r\n"
    return head.encode() if since_s < 1 else b" "


def asks_and_stays(_: float, __: random.Random) -> bytes:
    """Sends a small request per second, on a persistent connection."""
    return get("/healthz")


def reads_nothing(since_s: float, _: random.Random) -> bytes:
    """Requests large documents and never reads them."""
    return get("/api/queues") * 3 if since_s < 1 else b""


def grows_a_head(_: float, __: random.Random) -> bytes:
    """Sends a header that grows by some KiB per second."""
    return b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 4096


def writes_half(since_s: float, chance: random.Random) -> bytes:
    """Sends a request that is cut off somewhere."""
    whole = put("/api/alarms", b"{" + b" " * 300 + b"}")
    return whole[: chance.randrange(1, len(whole))] if since_s < 1 else b""


MANNERS: Final = (
    silent, drips_a_head, drips_a_body, asks_and_stays, reads_nothing, grows_a_head, writes_half,
)  # fmt: skip


class Guest:
    """One client."""

    def __init__(self, address: str, manner: Manner) -> None:
        self.socket = dial(address, blocking=False)
        self.manner = manner
        self.came_at = time.monotonic()

    def speak(self, chance: random.Random) -> bool:
        """Send what the manner says; False if the broker has closed the connection."""
        data = self.manner(time.monotonic() - self.came_at, chance)
        try:
            if data:
                self.socket.send(data)
            # A client that reads nothing would otherwise not notice.
            return self.manner is reads_nothing or self.socket.recv(4096) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


def crowd(address: str, seconds: float, seed: int, count: int) -> Mapping[str, int]:
    """How many clients came, and the largest number at once."""
    chance, until = random.Random(seed), time.monotonic() + seconds
    there: list[Guest] = []
    came = most = 0
    while (began := time.monotonic()) < until:
        for _ in range(min(count - len(there), COME_AGAIN_A_SECOND)):
            there.append(Guest(address, MANNERS[came % len(MANNERS)]))
            came += 1
        most = max(most, len(there))
        kept = []
        for each in there:
            if each.speak(chance):
                kept.append(each)
            else:
                each.socket.close()
        there = kept
        time.sleep(max(0.0, began + 1.0 - time.monotonic()))
    for each in there:
        each.socket.close()
    return {"came": came, "at once": most}


def main() -> None:
    os.nice(5)  # the target is the broker, not the machine
    address, seconds, seed, *count = sys.argv[1:]
    print(crowd(address, float(seconds), int(seed), int(count[0]) if count else COUNT))


if __name__ == "__main__":
    main()
