"""Opening: a data directory's engine with the configured settings, alone or in a cluster.

The rule: every engine that serves clients is opened here, so that the settings apply to each.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from arneb.runtime.garbage import starting
from arneb.settings.config import Config
from arneb_core.engine.engine import Engine, open_engine


def opener(config: Config) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    """Return a function that opens engines."""
    return partial(
        open_engine,
        retention=config.retention.retention,
        delays=config.delayed,
        reader_limit_s=config.store.reader_limit_s,
    )


def taking_over(config: Config) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    """Return the same for a node that takes over the lead: no garbage is collected while it opens
    the engine and clients wait."""
    opens = opener(config)

    @asynccontextmanager
    async def opened(*args: Any, **options: Any) -> AsyncIterator[Engine]:
        async with AsyncExitStack() as stack:
            with starting():
                core = await stack.enter_async_context(opens(*args, **options))
            yield core

    return opened
