"""Long answers: few are made at a time, and nobody waits behind them who asks for little.

The rule: whoever is about to make a long one asks first. He waits for those who asked before him,
each of whom waits for the event loop only and never for a client.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

import trio

LONG_ITEMS: Final = 200
"""A list of more objects is a long answer: some 3 ms of work."""

LOOKED_AT_MAX: Final = 2_000
"""So is one for which more are looked at, to find those with a name or to put them in order."""

Ask = Callable[[], Awaitable[None]]

_ASK: Final[ContextVar[Ask | None]] = ContextVar("long answers are asked for by", default=None)
_GO_ON: Final[ContextVar[Ask | None]] = ContextVar("and go on by", default=None)


def ask_by(ask: Ask, go_on: Ask | None = None) -> None:
    """Have what this task answers from now on asked for by ``ask``, which returns when a long
    answer may be made; ``go_on`` returns when its next piece may."""
    _ASK.set(ask)
    _GO_ON.set(go_on)


async def long_answer() -> None:
    """A long answer is about to be made, or the next piece of one; wait until it may."""
    ask = _ASK.get()
    if ask is not None:
        await ask()


async def between_pieces() -> None:
    """Let others have their turn before the next piece of an answer. A checkpoint."""
    await trio.lowlevel.checkpoint()
    go_on = _GO_ON.get()
    if go_on is not None:
        await go_on()
