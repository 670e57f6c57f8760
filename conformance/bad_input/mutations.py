"""Broken input: random bytes, and valid frames that were truncated, changed, repeated or mixed.

The caller passes the random generator, so the same seed repeats a run.
"""

import random
from collections.abc import Callable, Sequence

RANDOM_BYTES_MAX = 300
EDGES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
"""Byte values at the limits of lengths, flags and signs."""

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def broken(dice: random.Random, legal: Sequence[bytes]) -> bytes:
    """One piece of broken input: random, truncated or mutated, a third each."""
    match dice.randrange(3):
        case 0:
            return dice.randbytes(dice.randrange(1, RANDOM_BYTES_MAX))
        case 1:
            frame = dice.choice(legal)
            return frame[: dice.randrange(1, len(frame))]
        case _:
            frame = dice.choice(legal)
            for _ in range(dice.randrange(1, 4)):
                frame = dice.choice(MUTATIONS)(dice, frame, legal)
            return frame


def _flip(dice: random.Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(frame))
    return frame[:at] + bytes([frame[at] ^ 1 << dice.randrange(8)]) + frame[at + 1 :]


def _edge(dice: random.Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(frame))
    return frame[:at] + bytes([dice.choice(EDGES)]) + frame[at + 1 :]


def _insert(dice: random.Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(frame))
    return frame[:at] + dice.randbytes(dice.randrange(1, 9)) + frame[at:]


def _remove(dice: random.Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(frame))
    return frame[:at] + frame[at + dice.randrange(1, 9) :] or b"\0"


def _repeat(dice: random.Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    return frame * dice.randrange(2, 5)


def _splice(dice: random.Random, frame: bytes, legal: Sequence[bytes]) -> bytes:
    """The beginning of one frame and the end of another."""
    other = dice.choice(legal)
    return frame[: dice.randrange(len(frame))] + other[dice.randrange(len(other)) :] or b"\0"


def _join(dice: random.Random, frame: bytes, legal: Sequence[bytes]) -> bytes:
    return frame + dice.choice(legal)


MUTATIONS: Sequence[Mutation] = (
    _flip, _flip, _edge, _edge, _insert, _remove, _repeat, _splice, _join,
)  # fmt: skip
"""The most common mutations are listed twice."""
