"""Requests as hostile clients of the HTTP ports write them, one behind the other."""

from base64 import b64encode
from typing import Final

HOST: Final = f"host: x\r\nauthorization: Basic {b64encode(b'guest:guest').decode()}\r\n"
"""What each says besides: of somebody who is let in."""


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{HOST}\r\n".encode()


def put(path: str, body: bytes, method: str = "PUT") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\n{HOST}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body
