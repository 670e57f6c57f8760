"""What is to be sent: lines of standard input and of files, or whole files.

The rule: waiting for a line can be cancelled, as users of a terminal expect. No thread reads, since
a thread could not be cancelled.
"""

import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

READ_BYTES: Final = 64 * 1024
"""Bytes per read: the capacity of a Linux pipe."""

END: Final = re.compile(rb"\r*\n")


async def inputs(files: tuple[Path, ...], line_by_line: bool) -> AsyncIterator[bytes]:
    """Yield what to send: whole files, or lines without their ends."""
    if files and not line_by_line:
        for path in files:
            yield await anyio.Path(path).read_bytes()
        return
    sources = [lines_of_file(path) for path in files] or [lines_of(sys.stdin.fileno())]
    for source in sources:
        async for line in source:
            yield line


async def lines_of(descriptor: int) -> AsyncIterator[bytes]:
    """Yield each line without its end as soon as it is complete; the last one may lack an end."""
    parts: list[bytes] = []
    while data := await _read(descriptor):
        if b"\n" not in data:
            parts.append(data)
            continue
        *lines, rest = END.split(b"".join([*parts, data]))
        parts = [rest] if rest else []
        for line in lines:
            yield line
    if last := b"".join(parts).rstrip(b"\r"):
        yield last


async def lines_of_file(path: Path) -> AsyncIterator[bytes]:
    """Yield the lines of a file."""
    with path.open("rb", buffering=0) as file:
        async for line in lines_of(file.fileno()):
            yield line


async def _read(descriptor: int) -> bytes:
    """Wait for bytes and return them; empty at the end."""
    try:
        await anyio.wait_readable(descriptor)
    except OSError:
        # A file on disk is always ready, and cannot be polled.
        await checkpoint()
    return os.read(descriptor, READ_BYTES)
