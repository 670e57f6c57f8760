"""Opening: a data directory's engine as the settings have it, alone or in a cluster.

The rule: whoever opens one to serve clients opens it by this, so that no setting holds here and not
there.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from arneb.runtime.garbage import starting
from arneb.settings.config import Config
from arneb_core.engine.engine import Engine, open_engine


def opener(config: Config) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    """Opens engines."""
    return partial(
        open_engine,
        retention=config.retention.retention,
        delays=config.delayed,
        reader_limit_s=config.store.reader_limit_s,
    )


def taking_over(config: Config) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    """The same for a node that has followed: nothing is collected while it opens one and clients
    wait."""
    opens = opener(config)

    @asynccontextmanager
    async def opened(*args: Any, **options: Any) -> AsyncIterator[Engine]:
        async with AsyncExitStack() as stack:
            with starting():
                core = await stack.enter_async_context(opens(*args, **options))
            yield core

    return opened
