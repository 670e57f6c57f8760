"""Shard labels: which of several shards what is done now is done for, as logs name it.

The rule: whoever begins something for a shard says so once, and all that is done in it, in its
tasks and its threads, has the label. Where a cluster has one shard, nothing has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LABEL: Final[ContextVar[str]] = ContextVar("the shard that something is done for", default="")


def shard_label() -> str:
    """The shard's name; empty: it is not said."""
    return _LABEL.get()


@contextmanager
def labelled_shard(name: str) -> Iterator[None]:
    """What is done inside, and what is begun there, is done for that shard."""
    token = _LABEL.set(name)
    try:
        yield
    finally:
        _LABEL.reset(token)
