"""Callbacks: how the core reports outcomes, and calls whose failure does not harm the caller.

The rule: an exception from a frontend's callback is that frontend's mistake. It may cost neither
another connection nor the commit that is reported, so it is logged and goes no further. The same
holds for work done for one topic or subscription after another.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed

P = ParamSpec("P")

Done = Callable[[CommitFailed | None], None]
"""Called once in the event loop, in the order of the commits, never before the call that it was
given to has returned. None: durable; otherwise nothing of the unit is, or will be. It must not
raise; if it does, that is logged and changes nothing."""

Appended = Callable[[CommitFailed | None, Position], None]
"""As :data:`Done`, with the position of the run's first entry. A run is contiguous inside a ledger,
so entry *i* is at ``first + i``."""

logger = logging.getLogger(__name__)


def call(back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call ``back``; return False if it raised."""
    try:
        back(*args, **kwargs)
    except Exception as error:
        has_failed(back, error)
        return False
    return True


def has_failed(back: Callable[..., object], error: Exception) -> None:
    """Log that ``back`` raised, for code that calls it too often to use :func:`call`."""
    logger.error("error in a callback: %r", back, exc_info=error)
