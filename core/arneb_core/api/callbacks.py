"""Call-backs: calls into code that may fail without harm to whoever calls.

The rule: what a frontend's call-back raises is that frontend's mistake, and may cost neither
another connection nor the commit that it was told about. It is logged and goes no further. The
same for what is done for one topic or subscription after the other.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")

logger = logging.getLogger(__name__)


def call(back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call ``back``; False when it raised."""
    try:
        back(*args, **kwargs)
    except Exception:
        logger.exception("error in a callback: %r", back)
        return False
    return True
