"""Requests as hostile clients of the HTTP listeners write them, one after the other without
waiting."""

from base64 import b64encode
from typing import Final

HOST: Final = f"host: x\r\nauthorization: Basic {b64encode(b'guest:guest').decode()}\r\n"
"""The headers of each request, with the credentials of a valid user."""


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{HOST}\r\n".encode()


def put(path: str, body: bytes, method: str = "PUT") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\n{HOST}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body
