"""Call-backs: calls into code that is not the core's.

The rule: what a frontend's call-back raises is that frontend's mistake, and may cost neither
another connection nor the commit that it was told about. It is logged and goes no further.
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
        logger.exception("a call-back of a frontend failed: %r", back)
        return False
    return True
