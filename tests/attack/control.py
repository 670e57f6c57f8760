"""What a hostile program sends to the control socket.

The rule: only the broker's own user and root can open the socket, and they are trusted with
everything. What their programs send by mistake must still harm nobody, so no theme asks for the
broker to be stopped.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Final

Theme = Callable[[random.Random], bytes]


def ask(method: str, path: str, body: bytes = b"") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )


def opening() -> bytes:
    return b""


def garbage(chance: random.Random) -> bytes:
    """Bytes, other protocols, and malformed heads."""
    return chance.choice(
        (
            chance.randbytes(2000),
            b"AMQP\0\0\x09\x01" * 50,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\r\n" * 5000,
            b"GET /ctl/about HTTP/9.9\r\n\r\n",
            b"GET /ctl/about HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
            b"POST /ctl/reload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        )
    )


def half_requests(chance: random.Random) -> bytes:
    """Requests cut off anywhere."""
    whole = ask("PUT", "/ctl/settings", json.dumps({"log_level": "x" * 5000}).encode())
    return whole[: chance.randrange(1, len(whole))]


def giant_headers(_: random.Random) -> bytes:
    """A head that is longer than allowed, in one line."""
    return b"GET /ctl/about HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 500_000


def endless_body(_: random.Random) -> bytes:
    """Definitions that never end."""
    head = b"POST /api/definitions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + (b"ffff\r\n" + b" " * 0xFFFF + b"\r\n") * 32


def odd_orders(chance: random.Random) -> bytes:
    """Unknown commands and impossible settings."""
    bodies = (b"", b"null", b"[" * 300_000, b'{"a":' * 20_000, b'{"log_level": 7}', b"\xff" * 100,
              b'{"vm_memory_high_watermark": "' + b"9" * 5000 + b'"}',
              json.dumps({f"setting {n}": n for n in range(1000)}).encode())  # fmt: skip
    paths = ("/ctl/settings", "/ctl/nothing", "/ctl/", "/ctl//about", "/ctl/../ctl/about", "/",
             "/ctl/" + "x" * 5000)  # fmt: skip
    methods = ("PUT", "GET", "DELETE", "OPTIONS", "BREW")
    return b"".join(
        ask(chance.choice(methods), chance.choice(paths), chance.choice(bodies)) for _ in range(20)
    )


def lists(_: random.Random) -> bytes:
    """Requests every list repeatedly, and reads none."""
    names = ("ctl/about", "ctl/environment", "api/queues", "api/definitions", "api/overview")
    return b"".join(ask("GET", f"/{each}") for each in names) * 20


THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each
    for each in (garbage, half_requests, giant_headers, endless_body, odd_orders, lists)
}
