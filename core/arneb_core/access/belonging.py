"""Belonging: which part of a cluster's catalogue is in this store, where there are several shards.

The rule: an edit refuses what belongs to another store, whoever asks, so nothing is ever in two
stores. A single store has everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_core.access.errors import InvalidAccess


def _never(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Belonging:
    """What belongs to one store."""

    misplaced: Callable[[str], str] = _never
    """Says why a namespace cannot be here; empty: it can."""
    copied_from: str = ""
    """The shard from which users and global parameters are copied; empty: they are this store's
    own."""

    def check_own(self, what: str) -> None:
        """Raise :class:`.InvalidAccess` for a change of ``what`` if it is a copy here."""
        if self.copied_from:
            text = f"{what} is changed in shard '{self.copied_from}', this one has a copy"
            raise InvalidAccess(text)


EVERYTHING: Final = Belonging()
