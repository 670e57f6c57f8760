"""Serving: what whoever puts a node together gives to its shard.

The rule: a shard calls these and knows nothing of who is behind them.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from arneb_core.api.placement import Placement
from arneb_core.engine.engine import Engine

Serve = Callable[[Engine], Awaitable[None]]
"""Serves clients with the engine until it is cancelled."""

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]
"""As :func:`~arneb_core.engine.engine.open_engine`, with what the settings say."""

Placed = Callable[[Placement], None]
"""Is told who leads, as this node knows it, whenever that changes."""


def nobody_waits() -> None:
    """Nobody wants to know what the directory has."""


def nobody_asks(_: Placement) -> None:
    """Nobody wants to know who leads."""
