"""Uploads: a file as the body of a request, or as a part of a form.

The rule: large forms are slow to parse, so a form is parsed in a thread, and so is the file in it.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from arneb.http.management.requests.calls import bad_request

T = TypeVar("T")

FORM: Final = "multipart/form-data"
FILE: Final = "file"


async def uploaded(kind: str, body: bytes, read: Callable[[bytes], T]) -> T:
    """Return what ``read`` makes of the file in a body of content type ``kind``. Raises 400, and
    whatever ``read`` raises."""

    def in_thread() -> T:
        return read(_file_in(kind, body))

    return await trio.to_thread.run_sync(in_thread)


def _file_in(kind: str, body: bytes) -> bytes:
    if not kind.startswith(FORM):
        return body
    # Imported late: it takes a mebibyte of memory, and few brokers ever need it.
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
