"""Acting: in whose name the running task changes something, for whoever tells others of the change.

The rule: it is said at the door, where the user is known, and holds for what is called from there;
what the broker does by itself is nobody's. No right depends on it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

BY_ITSELF: Final = "rmq-internal"
"""Who RabbitMQ says it was when it did something by itself."""

_ACTING: Final[ContextVar[str]] = ContextVar("acting", default=BY_ITSELF)


def acting_user() -> str:
    """Whose name it is."""
    return _ACTING.get()


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """What happens in the block is done by that user."""
    token = _ACTING.set(user)
    try:
        yield
    finally:
        _ACTING.reset(token)
