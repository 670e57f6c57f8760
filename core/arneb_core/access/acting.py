"""Acting: the user in whose name the running task makes changes, for reports of those changes.

The rule: the user is set where a request comes in, and holds for all calls made from there; the
broker's own changes belong to no user. No right depends on it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

BY_ITSELF: Final = "rmq-internal"
"""RabbitMQ's name for the broker acting by itself."""

_ACTING: Final[ContextVar[str]] = ContextVar("acting", default=BY_ITSELF)


def acting_user() -> str:
    """Return the user in whose name the task acts."""
    return _ACTING.get()


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """Attribute the changes made in the block to ``user``."""
    token = _ACTING.set(user)
    try:
        yield
    finally:
        _ACTING.reset(token)
