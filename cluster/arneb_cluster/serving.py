"""Serving: the functions that a node passes to its shard.

The rule: a shard calls these functions, and does not know who implements them.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from arneb_core.api.nodes.placement import Placement
from arneb_core.engine.engine import Engine

Serve = Callable[[Engine], Awaitable[None]]
"""Serves clients with the engine until it is cancelled."""

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]
"""As :func:`~arneb_core.engine.engine.open_engine`, with the node's settings."""

Placed = Callable[[Placement], None]
"""Called with this node's knowledge of the leader, whenever that changes."""


def do_nothing() -> None:
    """Do nothing: there are no waiters for the directory."""


def ignore_placement(_: Placement) -> None:
    """Do nothing: the leader is not shown to anyone."""
