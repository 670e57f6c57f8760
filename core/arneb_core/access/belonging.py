"""Belonging: what of a cluster's catalogue is in this store, where there are several shards.

The rule: what belongs to another store is refused by the edit that would bring it here, whoever
asks; so whatever way it came by, it is nowhere twice. A store that is alone has everything.
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
    """Why a namespace cannot be here; empty: it can."""
    copied_from: str = ""
    """The shard whose users and global parameters this store has a copy of; empty: they are its
    own."""

    def check_own(self, what: str) -> None:
        """Raise :class:`.InvalidAccess` for a change of what is a copy here."""
        if self.copied_from:
            text = f"{what} is changed in shard '{self.copied_from}', this one has a copy"
            raise InvalidAccess(text)


EVERYTHING: Final = Belonging()
