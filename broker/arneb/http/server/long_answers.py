"""Long answers: only a few are made at a time, and short ones do not wait behind them.

The rule: a request asks before it makes a long answer, and waits for those that asked earlier;
these wait only for the event loop, never for a client.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

import trio

LONG_ITEMS: Final = 200
"""A list of more objects is a long answer: it takes more than some 3 ms."""

LOOKED_AT_MAX: Final = 2_000
"""So is a list for which more objects are searched or sorted."""

Ask = Callable[[], Awaitable[None]]

_ASK: Final[ContextVar[Ask | None]] = ContextVar("long answers are asked for by", default=None)
_NEXT_PIECE: Final[ContextVar[Ask | None]] = ContextVar("and go on by", default=None)


def ask_by(ask: Ask, next_piece: Ask | None = None) -> None:
    """Set for this task: ``ask`` returns when a long answer may be made, ``next_piece`` when its
    next piece may."""
    _ASK.set(ask)
    _NEXT_PIECE.set(next_piece)


async def long_answer() -> None:
    """Wait until a long answer may be made."""
    ask = _ASK.get()
    if ask is not None:
        await ask()


async def between_pieces() -> None:
    """Let others have their turn before the next piece of an answer. A checkpoint."""
    await trio.lowlevel.checkpoint()
    next_piece = _NEXT_PIECE.get()
    if next_piece is not None:
        await next_piece()
