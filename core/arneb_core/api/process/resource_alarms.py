"""Resource alarms: which resources the broker is short of, and who is notified.

The rule: the measuring side always declares the whole set, and listeners are notified of changes
only. They decide what an alarm means. The core continues either way, and refuses appends only when
there is no room left at all.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final


class Resource(Enum):
    """What may run short."""

    MEMORY = "memory"
    DISK = "disk"
    LOG = "log"
    """The commit log does not answer."""


Short = frozenset[Resource]

NOTHING_SHORT: Final[Short] = frozenset()


class ResourceAlarms:
    """The resources that are short now. Belongs to the event loop."""

    __slots__ = ("_listeners", "_short")

    def __init__(self) -> None:
        self._short = NOTHING_SHORT
        self._listeners: dict[Callable[[Short], None], None] = {}

    def __repr__(self) -> str:
        return f"<ResourceAlarms {' '.join(sorted(each.value for each in self._short)) or 'none'}>"

    @property
    def short(self) -> Short:
        return self._short

    def declare(self, short: Short) -> None:
        """Set which resources are short from now on: exactly these."""
        if short == self._short:
            return
        self._short = short
        for listener in list(self._listeners):
            listener(short)

    def listen(self, listener: Callable[[Short], None]) -> None:
        """Call ``listener`` with what is short whenever that changes; it must not raise."""
        self._listeners[listener] = None

    def leave(self, listener: Callable[[Short], None]) -> None:
        """Stop calling ``listener``."""
        self._listeners.pop(listener, None)
