"""Blocks: stored blocks, sent unchanged, a piece at a time.

The rule: a piece is read when the client has taken the previous one, in a transaction that ends
before the piece is sent. So no client, however slow, keeps more than a piece in memory, and none
keeps the store from reusing its pages.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from struct import Struct
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from arneb.data.errors import DataError, in_words
from arneb_core.api.entries.position import Position
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.topics.stored_reading import StoredReading

MEDIA_TYPE: Final = "application/vnd.arneb.blocks"

PIECE_BYTES: Final = 512 * 1024
"""The bytes read in one transaction: a few milliseconds."""

BYTES_DEFAULT: Final = 64 * 1024 * 1024
BYTES_MIN: Final = 16 * 1024
BYTES_MAX: Final = 1 << 30

FRAME: Final = Struct(">BxxxIQ")
BLOCK, END, ERROR = range(3)


class BlockAnswer(Response):
    """An answer of frames, each piece made when the previous one has been taken."""

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]  # unknown before the last piece
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with aclosing(self._pieces) as pieces:
            await send(head)
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


Hold = Callable[[int], Awaitable[None]]
"""Waits until there is room for this many more bytes."""


async def frames(
    reading: StoredReading, topic: Topic, first: Position, last: Position, size: int, hold: Hold
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of one answer, in pieces. An error meanwhile becomes the last frame."""
    left, position = size, first
    there = min(last, Position(topic.next_append - 1))
    while position <= there and left > 0:
        await hold(PIECE_BYTES)
        try:
            with in_words():
                found = await reading.blocks(topic.id, position, there, min(left, PIECE_BYTES))
            if topic.fenced:
                raise DataError(410, "topic_replaced", f"topic {topic.name} was deleted meanwhile")
        except DataError as error:
            text = json.dumps(error.document).encode()
            yield FRAME.pack(ERROR, len(text), position) + text
            return
        parts: list[bytes] = []
        for end, block in found.blocks:
            parts += (FRAME.pack(BLOCK, len(block), end), block)
            left -= len(block)
        position = found.next
        del found
        if parts:
            yield b"".join(parts)
    yield FRAME.pack(END, 0, position if position <= there else max(position, last + 1))
