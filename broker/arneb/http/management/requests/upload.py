"""A file that a client uploads: the body of its request, or a form in which it is a part.

The rule: a form takes its time by the megabyte, so it is read in a thread, with what is made of
the file.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from arneb.http.management.requests.calls import bad_request

T = TypeVar("T")

FORM: Final = "multipart/form-data"
FILE: Final = "file"


async def uploaded(kind: str, body: bytes, read: Callable[[bytes], T]) -> T:
    """What ``read`` makes of the file in a body of that content type. Raises 400, and what
    ``read`` raises."""

    def in_thread() -> T:
        return read(_file_in(kind, body))

    return await trio.to_thread.run_sync(in_thread)


def _file_in(kind: str, body: bytes) -> bytes:
    if not kind.startswith(FORM):
        return body
    # A mebibyte of memory, for what few brokers are ever asked.
    from email.parser import BytesParser
    from email.policy import HTTP

    message = BytesParser(policy=HTTP).parsebytes(
        b"content-type: " + kind.encode("latin-1") + b"\r\n\r\n" + body
    )
    for part in message.iter_parts() if message.is_multipart() else ():
        if part.get_param("name", header="content-disposition") == FILE:
            content = part.get_payload(decode=True)
            return content if isinstance(content, bytes) else b""
    raise bad_request(f"expected a part named {FILE}")
