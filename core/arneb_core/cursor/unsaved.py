"""Which keys of a stored mapping must be written or deleted by the next commit.

The rule: a key that is neither in memory nor on disk is not remembered, so a key that is added
and removed between two commits costs nothing, and a mapping that is never stored costs no memory.
"""

from collections.abc import Container, Iterable


class Unsaved:
    """The changed keys of one mapping of ints.

    Invariant: every dirty key is in the mapping, or the disk may hold it, or both.
    """

    __slots__ = ("_stored", "dirty")

    def __init__(self) -> None:
        # Dictionaries without values: an empty set takes three times as much, and there are many.
        self.dirty: dict[int, None] = {}
        """Keys changed since :meth:`take`. Code that puts a value adds its key here."""
        self._stored: dict[int, None] = {}

    def __repr__(self) -> str:
        return f"<Unsaved {len(self.dirty)} keys, {len(self._stored)} stored>"

    def dropped(self, key: int) -> None:
        """Note that the mapping no longer has ``key``."""
        if key in self._stored:
            self.dirty[key] = None
        else:
            self.dirty.pop(key, None)

    def loaded(self, key: int) -> None:
        """Note that the disk holds ``key``."""
        self._stored[key] = None

    def take(self, present: Container[int]) -> list[int]:
        """Return the dirty keys in order, to be written if ``present`` has them, else deleted."""
        keys = sorted(self.dirty)
        self.dirty.clear()
        for key in keys:
            if key in present:
                self._stored[key] = None
            else:
                self._stored.pop(key, None)
        return keys

    def failed(self, keys: Iterable[int]) -> None:
        """Make taken ``keys``, whose commit failed, dirty again; the disk may hold them."""
        again = dict.fromkeys(keys)
        self._stored |= again
        self.dirty |= again


def number_in(suffix: bytes, size: int) -> int:
    """Return the number, of ``size`` bytes, after the kind in a stored key."""
    if len(suffix) != size + 1:
        raise ValueError(f"expected a cursor key of {size + 1} bytes, got {len(suffix)}")
    return int.from_bytes(suffix[1:], "big")
