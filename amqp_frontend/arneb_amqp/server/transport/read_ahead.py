"""Read-ahead: how far a client may be read beyond what is stored of what it has published.

The rule: as far as a commit needs to be full while the next one gathers, and once more; and where
many send all they can, only so far that their shares together leave room. What is read ahead
stands in front of what others publish, and past the core's own bound (``Core.crowded``) everybody
has to wait, those who send little too.
"""

from typing import Final

import trio

from arneb_amqp.session.effect_queue import EffectQueue
from arneb_amqp.session.effects import Token
from arneb_core.api.core import Core

UNSTORED_BYTES_MAX: Final = 1024 * 1024
"""Read before what was published until then must be stored. A commit takes LMDB two flushes,
whatever is in it; so much are some 3,500 small messages, or 250 of 4 KiB. With a quarter of it,
where a flush takes .3 ms, a flood and a window of large messages come to three quarters of the
rate."""

UNSTORED_BYTES_SHARE: Final = 256 * 1024
"""The same while much waits."""

WAITING_BYTES_MUCH: Final = 4 * 1024 * 1024
"""Of all publishers together: two or three floods with all that each may have. It is a quarter of
what makes the core crowded, so that a dozen more have room for their shares."""


class ReadAhead:
    """How far one connection was read. Invariants: what was published up to ``_mark`` is to be
    stored before more is read than the bound; ``_stored`` is there while that is waited for."""

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
        """``size`` bytes more were read. True: :meth:`caught_up` is to be waited for."""
        self._since_mark = read = self._since_mark + size
        if read <= UNSTORED_BYTES_SHARE:
            return False
        return read > UNSTORED_BYTES_MAX or self._core.waiting_bytes > WAITING_BYTES_MUCH

    def committed(self) -> None:
        """An append is stored, or never will be."""
        if self._stored is not None and self._effects.has_through(self._mark):
            self._stored.set()

    async def caught_up(self) -> None:
        """Wait until what was published up to the last mark is stored; then set the next one."""
        effects = self._effects
        while not effects.has_through(self._mark):
            self._stored = trio.Event()
            await self._stored.wait()
        self._stored = None
        self._mark, self._since_mark = effects.last, 0
