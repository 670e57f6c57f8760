"""Read-ahead: how far a client is read ahead of its publishes that are stored.

The rule: enough to fill one commit while the next one gathers, and the same again; and where many
clients send all they can, only so much that their shares together leave room. What is read ahead
precedes what others publish, and beyond the core's own bound (``Core.crowded``) everybody has to
wait, including those who send little.
"""

from typing import Final

import trio

from arneb_amqp.session.effect_queue import EffectQueue
from arneb_amqp.session.effects import Token
from arneb_core.api.core import Core

UNSTORED_BYTES_MAX: Final = 1024 * 1024
"""Bytes read before earlier publishes must be stored. A commit takes LMDB two flushes, whatever its
size; this much is some 3,500 small messages, or 250 of 4 KiB. With a quarter of it, where a flush
takes .3 ms, a flood and a window of large messages reach three quarters of the rate."""

UNSTORED_BYTES_SHARE: Final = 256 * 1024
"""The same while much is waiting."""

WAITING_BYTES_MUCH: Final = 4 * 1024 * 1024
"""Waiting bytes of all publishers that count as much: two or three floods with all that each may
have. It is a quarter of what makes the core crowded, so a dozen more have room for their shares."""


class ReadAhead:
    """How far one connection was read. Invariants: publishes up to ``_mark`` must be stored before
    more than the bound is read; ``_stored`` is set while that is waited for."""

    def __init__(self, core: Core, effects: EffectQueue) -> None:
        self._core = core
        self._effects = effects
        self._mark = Token(0)
        self._since_mark = 0
        self._stored: trio.Event | None = None

    def __repr__(self) -> str:
        state = ", waiting" if self._stored is not None else ""
        return f"<ReadAhead {self._since_mark} bytes since append {self._mark}{state}>"

    def goes_too_far(self, size: int) -> bool:
        """Count ``size`` bytes read. True: await :meth:`caught_up`."""
        self._since_mark = read = self._since_mark + size
        if read <= UNSTORED_BYTES_SHARE:
            return False
        return read > UNSTORED_BYTES_MAX or self._core.waiting_bytes > WAITING_BYTES_MUCH

    def committed(self) -> None:
        """Note an append that is stored, or never will be."""
        if self._stored is not None and self._effects.has_through(self._mark):
            self._stored.set()

    async def caught_up(self) -> None:
        """Wait until publishes up to the last mark are stored; then set the next mark."""
        effects = self._effects
        while not effects.has_through(self._mark):
            self._stored = trio.Event()
            await self._stored.wait()
        self._stored = None
        self._mark, self._since_mark = effects.last, 0
