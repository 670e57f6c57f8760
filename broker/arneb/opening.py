"""Opening: a data directory's engine as the settings have it, alone or in a cluster.

The rule: whoever opens one to serve clients opens it by this, so that no setting holds here and not
there.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from arneb.config import Config
from arneb_core.engine.engine import Engine, open_engine


def opener(config: Config) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    """Opens engines."""
    return partial(
        open_engine,
        retention=config.retention.retention,
        delays=config.delayed,
        reader_limit_s=config.store.reader_limit_s,
    )
