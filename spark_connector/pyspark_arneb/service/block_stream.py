"""A block stream: the blocks of a range of a log, as the broker sends them.

The rule: nothing is read before it is needed, so a query that stops reading blocks only the
broker's socket; a response that is cut off is requested again from where it ended.
"""

from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from struct import Struct
from typing import Final

from arneb_core.api.entries.position import ENTRY_BITS, ENTRY_MASK, Position
from pyspark_arneb.service.connection import ATTEMPTS, Address, opened, pause
from pyspark_arneb.service.errors import ServiceError

FRAME: Final = Struct(">BxxxIQ")
BLOCK, END, ERROR = range(3)

READ_BYTES: Final = 256 * 1024
BYTES_ASKED: Final = 64 * 1024 * 1024
"""Bytes requested in one response; the next request continues after it."""
BYTES_ASKED_MIN: Final = 16 * 1024
BLOCK_BYTES_MAX: Final = (1 << 31) + (1 << 20)
"""The largest possible block, one entry of 2 GiB; a longer frame is malformed."""


def blocks_of(
    address: Address, topic_id: int, first: Position, last: Position, size: int = BYTES_ASKED
) -> Iterator[tuple[Position, bytes]]:
    """Yield the blocks that overlap [first, last], each with the position of its last entry,
    fetched in responses of about ``size`` bytes. Raises :class:`ServiceError`."""
    position, failures = first, 0
    while position <= last:
        try:
            for kind, at, value in _answer(address, topic_id, position, last, size):
                failures = 0
                position = at if kind == END else Position(at + 1)
                if kind == BLOCK:
                    yield at, value
        except ServiceError as error:
            failures += 1
            if error.status not in (0, 503) or failures == ATTEMPTS:
                raise
            pause(failures, error)


def first_blocks(
    address: Address, topic_id: int, first: Position, last: Position, size: int
) -> list[tuple[Position, bytes]]:
    """Return the blocks of one response of about ``size`` bytes. Raises :class:`ServiceError`."""
    asked = max(size, BYTES_ASKED_MIN)
    found: list[tuple[Position, bytes]] = []
    left = size
    for kind, at, value in _answer(address, topic_id, first, last, asked):
        if kind == BLOCK and left > 0:
            found.append((at, value))
            left -= len(value)
    return found


def _answer(
    address: Address, topic_id: int, first: Position, last: Position, size: int
) -> Iterator[tuple[int, Position, bytes]]:
    """Yield the frames of one response, the last of which is an end. Raises
    :class:`ServiceError`."""
    parameters = {"id": topic_id, "from": spelt(first), "to": spelt(last), "bytes": size}
    with opened(address, "/blocks", parameters) as response:
        kind = BLOCK
        for kind, at, value in _frames(response):
            if kind == ERROR:
                raise ServiceError.from_document(value, str(address))
            yield kind, at, value
        if kind != END:
            raise ServiceError("unreachable", f"the broker at {address} cut a response off")


def spelt(position: Position) -> str:
    """Render a position for the data API, including bounds that no entry has."""
    return f"{position >> ENTRY_BITS}:{position & ENTRY_MASK}"


def _frames(response: HTTPResponse) -> Iterator[tuple[int, Position, bytes]]:
    """Yield the frames of a response, without one that was cut off."""
    data, at = b"", 0
    while more := response.read(READ_BYTES):
        data, at = data[at:] + more, 0
        while len(data) - at >= FRAME.size:
            kind, length, position = FRAME.unpack_from(data, at)
            if kind > ERROR or length > BLOCK_BYTES_MAX:
                raise HTTPException(f"expected a frame, got {data[at : at + FRAME.size].hex()}")
            end = at + FRAME.size + length
            if end > len(data):
                data, at, end = data[at:], 0, end - at
                data += response.read(end - len(data))
                if len(data) < end:
                    return
            yield kind, Position(position), data[at + FRAME.size : end]
            at = end
