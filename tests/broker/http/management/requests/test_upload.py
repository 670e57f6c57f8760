"""Definitions files as browsers and curl send them: in a form, or as the body itself."""

import threading

import pytest

from arneb.http.management.requests import upload
from arneb.http.management.requests.calls import Refused
from arneb.http.management.requests.upload import uploaded

FILE = b'{"users": []}'
FORM = "multipart/form-data; boundary=4f1"
END = b"--4f1--\r\n"


def part(name: str, content: bytes, *headers: str) -> bytes:
    lines = ("--4f1", f'Content-Disposition: form-data; name="{name}"', *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", FILE),
        ("", FILE),
        (FORM, part("file", FILE) + END),
        (FORM, part("user", b"ann") + part("file", FILE, "Content-Type: text/json") + END),
        (FORM, part("file", b"eyJ1c2VycyI6IFtdfQ==", "Content-Transfer-Encoding: base64") + END),
    ],
)
async def test_the_file_is_the_body_or_the_part_of_that_name(kind: str, body: bytes) -> None:
    assert await uploaded(kind, body, bytes) == FILE


@pytest.mark.parametrize(
    "body", [part("files", FILE) + END, END, b"", FILE, b"--4f1\r\n\r\n" + FILE, b"\xff\r\n\x00"]
)
async def test_a_form_without_a_file_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="expected a part named file"):
        await uploaded(FORM, body, bytes)


async def test_a_form_is_parsed_in_a_thread_together_with_its_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop would be blocked for 0.1 s per mebibyte."""
    threads = [threading.get_ident()]
    file_in = upload._file_in

    def watched(kind: str, body: bytes) -> bytes:
        threads.append(threading.get_ident())
        return file_in(kind, body)

    def read(file: bytes) -> int:
        threads.append(threading.get_ident())
        return len(file)

    monkeypatch.setattr(upload, "_file_in", watched)
    assert await uploaded(FORM, part("file", FILE) + END, read) == len(FILE)
    loop, form, made = threads
    assert loop != form == made
