"""No delayed entries: stands in for :class:`.DelayedEntries` on topics that never had one.

The rule: it does nothing, so that no caller has to ask whether there is something to do.
"""

from collections.abc import Sequence
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec


class NoDelayedEntries:
    """Holds nothing back."""

    entries: Final = 0
    goes_first: Final = False
    is_wanting: Final = False
    unreadable: Final = None

    def __repr__(self) -> str:
        return "<NoDelayedEntries>"

    def source(self) -> None:
        """Nothing comes due."""

    def begin(self, spec: ConsumerSpec) -> None:
        """Nothing to prepare: one instance serves all subscriptions."""

    def returning(self, positions: Sequence[Position], after: Position) -> list[Position]:
        """Return those that the reader is past; see :meth:`.DelayedEntries.returning`."""
        return [position for position in positions if position <= after]

    def discard(self, positions: Sequence[Position]) -> None:
        """Nothing to do, as in all of the following."""

    def discard_through(self, position: Position) -> None: ...

    def clear(self, position: Position) -> None: ...

    def drop_cached(self) -> None: ...

    def reset(self) -> None: ...

    def start_over(self) -> None: ...

    def retry(self) -> None: ...

    def resume(self) -> None: ...


NO_DELAYED_ENTRIES: Final = NoDelayedEntries()
