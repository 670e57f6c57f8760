"""Call-backs: how the core tells others, and calls that may fail without harm to whoever calls.

The rule: what a frontend's call-back raises is that frontend's mistake, and may cost neither
another connection nor the commit that it was told about. It is logged and goes no further. The
same for what is done for one topic or subscription after the other.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec

from arneb_core.api.errors import CommitFailed
from arneb_core.api.position import Position

P = ParamSpec("P")

Done = Callable[[CommitFailed | None], None]
"""Called once in the event loop, in the order of the commits, never before the call that it
was given to returns. None = durable; else nothing of the unit is, nor will be. It must not
raise; what it raises all the same is logged and changes nothing."""

Appended = Callable[[CommitFailed | None, Position], None]
"""As :data:`Done`, with the position of the run's first entry; a run is contiguous inside a
ledger, so entry *i* stands at ``first + i``."""

logger = logging.getLogger(__name__)


def call(back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call ``back``; False when it raised."""
    try:
        back(*args, **kwargs)
    except Exception as error:
        has_failed(back, error)
        return False
    return True


def has_failed(back: Callable[..., object], error: Exception) -> None:
    """Log that ``back`` raised, for code that calls it too often to use :func:`call`."""
    logger.error("error in a callback: %r", back, exc_info=error)
