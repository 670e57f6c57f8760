"""Shard labels: the shard that the current task works for, as logs name it.

The rule: code that begins work for a shard sets the label once, and all tasks and threads of that
work inherit it. Where a cluster has one shard, nothing is labelled.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LABEL: Final[ContextVar[str]] = ContextVar("the shard that something is done for", default="")


def shard_label() -> str:
    """Return the current shard's name; empty if there is no label."""
    return _LABEL.get()


@contextmanager
def labelled_shard(name: str) -> Iterator[None]:
    """Label the block, and the tasks and threads started in it, with a shard."""
    token = _LABEL.set(name)
    try:
        yield
    finally:
        _LABEL.reset(token)
