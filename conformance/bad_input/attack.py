"""Sends broken input over many connections and observes the broker."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.brokers.process import Address, Broker

AT_ONCE = 16
ANSWER_WITHIN_S = 30.0
WARM_UP_PART = 0.3
GROWTH_BYTES_MAX = 12 << 20
"""How much the heap may grow after the warm-up; a leak of a few KiB per connection would exceed it
by far."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One connection's input: valid bytes, followed by broken ones."""

    number: int
    prefix: bytes
    broken: bytes


@dataclass(slots=True)
class Outcome:
    """The result of the whole attack."""

    sent: int = 0
    answered: int = 0
    unclosed: list[Piece] | None = None
    growth_bytes: int = 0


async def attack(
    address: Address,
    pieces: Sequence[Piece],
    process: Broker | None,
    check_answer: Callable[[bytes], None],
) -> Outcome:
    """Send every piece on a connection of its own, several at once.

    After its bytes each connection is shut down for writing, so the broker knows that no more will
    follow. The broker must then close the connection, with or without an answer. ``check_answer``
    is given what it answered.
    """
    outcome = Outcome(unclosed=[])
    places = asyncio.Semaphore(AT_ONCE)
    warm = int(len(pieces) * WARM_UP_PART)

    async def one(piece: Piece) -> None:
        async with places:
            answer = await _exchange(address, piece)
        outcome.sent += 1
        if answer is None:
            assert outcome.unclosed is not None
            outcome.unclosed.append(piece)
            return
        outcome.answered += bool(answer)
        check_answer(answer)

    await asyncio.gather(*[one(piece) for piece in pieces[:warm]])
    before = process.memory().anonymous if process else 0
    await asyncio.gather(*[one(piece) for piece in pieces[warm:]])
    outcome.growth_bytes = process.memory().anonymous - before if process else 0
    return outcome


async def _exchange(address: Address, piece: Piece) -> bytes | None:
    """Everything that the broker answered before it closed the connection; None if it did not close
    it."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    answer = bytearray()
    try:
        writer.write(piece.prefix + piece.broken)
        writer.write_eof()
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while chunk := await reader.read(1 << 16):
                answer += chunk
    except TimeoutError:  # TimeoutError is an OSError too, so it must be caught first
        return None
    except OSError:
        pass  # the broker reset the connection, possibly after an answer
    finally:
        writer.transport.abort()
    return bytes(answer)


def numbered(
    count: int, seed: int, make: Callable[[random.Random], tuple[bytes, bytes]]
) -> list[Piece]:
    """Make ``count`` pieces; each depends only on the seed and its number."""
    pieces = []
    for number in range(count):
        prefix, broken = make(random.Random(f"{seed}:{number}"))
        pieces.append(Piece(number, prefix, broken))
    return pieces
