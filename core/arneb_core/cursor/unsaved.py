"""Which keys of a stored mapping must be written or deleted by the next commit.

The rule: a key that is neither in memory nor on disk is not remembered, so what comes and
goes between two commits costs nothing, and a mapping that is never stored grows no list.
"""

from collections.abc import Container, Iterable


class Unsaved:
    """The changed keys of one mapping of ints.

    Invariant: every dirty key is in the mapping, or the disk may hold it, or both.
    """

    __slots__ = ("_stored", "dirty")

    def __init__(self) -> None:
        self.dirty: set[int] = set()
        """Keys changed since :meth:`take`. Whoever puts a value adds its key here."""
        self._stored: set[int] = set()

    def dropped(self, key: int) -> None:
        """The mapping has no such key any more."""
        if key in self._stored:
            self.dirty.add(key)
        else:
            self.dirty.discard(key)

    def loaded(self, key: int) -> None:
        """The disk holds ``key``."""
        self._stored.add(key)

    def take(self, present: Container[int]) -> list[int]:
        """The dirty keys in order, to be written if ``present`` has them and else deleted."""
        keys = sorted(self.dirty)
        self.dirty.clear()
        for key in keys:
            if key in present:
                self._stored.add(key)
            else:
                self._stored.discard(key)
        return keys

    def failed(self, keys: Iterable[int]) -> None:
        """The commit of taken ``keys`` failed: the disk is as before, whatever that was."""
        keys = set(keys)
        self._stored |= keys
        self.dirty |= keys
