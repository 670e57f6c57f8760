"""Lines from standard input and from files.

The rule: whoever waits for a line can be cancelled, as a terminal's user wants it. No thread reads,
which could not be.
"""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

READ_BYTES: Final = 64 * 1024
"""What a pipe of Linux holds."""

END: Final = re.compile(rb"\r*\n")


async def lines_of(descriptor: int) -> AsyncIterator[bytes]:
    """The lines, without their ends, as soon as each is there; the last one may have none."""
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
    """The same of a file."""
    with path.open("rb", buffering=0) as file:
        async for line in lines_of(file.fileno()):
            yield line


async def _read(descriptor: int) -> bytes:
    """What is there; empty at the end."""
    try:
        await anyio.wait_readable(descriptor)
    except OSError:
        # A file on disk is always ready, and nobody watches it.
        await checkpoint()
    return os.read(descriptor, READ_BYTES)
