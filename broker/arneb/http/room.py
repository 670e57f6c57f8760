"""Room: what the connections of one HTTP port make the broker hold, and whether there is more.

The rule: a connection that wants to hold more waits until there is room, for a second at most: the
connections that have held something for longer are then closed, the longest first. So a client that
reads nothing cannot keep others from being answered.
"""

from collections.abc import Callable
from typing import Final

import trio

HELD_S: Final = 1.0
"""How long a connection may hold something that others need. A client that reads is done by then,
for it is given 64 KiB at a time."""


class Share:
    """What one connection holds. ``cut`` ends it."""

    __slots__ = ("bytes", "cut", "since", "yielding")

    def __init__(self, cut: Callable[[], object]) -> None:
        self.cut = cut
        self.bytes = 0
        self.since = 0.0
        self.yielding = False
        """It waits for its client, and may be cut off."""

    def __repr__(self) -> str:
        return f"<Share of {self.bytes} bytes>"


class Room:
    """The bytes that all connections of a port hold.

    Invariant: ``bytes`` is the sum of all shares; ``_holders`` are those that hold something, the
    longest first.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._holders: dict[Share, None] = {}
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<Room {self.bytes}/{self.bytes_max} bytes, {len(self._holders)} holders>"

    async def take(self, share: Share, size: int, *, needed: bool = False) -> None:
        """Hold ``size`` more, as soon as there is room; one that is alone always has room. With
        ``needed`` it is waited for clients only: others may be waiting for this one."""
        while self.bytes > share.bytes and self.bytes + size > self.bytes_max:
            again_s = self._cut_longest()
            if again_s is None:
                if needed:
                    break
                again_s = HELD_S
            with trio.move_on_after(again_s):
                await self._changed.wait()
        self.add(share, size)

    def add(self, share: Share, size: int) -> None:
        """Hold ``size`` more, which cannot be helped."""
        if not share.bytes:
            share.since = trio.current_time()
            self._holders[share] = None
        share.bytes += size
        self.bytes += size

    def give_back(self, share: Share) -> None:
        """Hold nothing any more."""
        self.bytes -= share.bytes
        share.bytes = 0
        self._holders.pop(share, None)
        self._changed.set()
        self._changed = trio.Event()

    def _cut_longest(self) -> float | None:
        """Cut off who has held something for too long; in how many seconds to look again, None =
        nobody waits for a client."""
        now = trio.current_time()
        for share in list(self._holders):
            if not share.yielding:
                continue
            if share.since + HELD_S > now:
                return share.since + HELD_S - now
            share.cut()
            self.give_back(share)
            return 0.0
        return None
