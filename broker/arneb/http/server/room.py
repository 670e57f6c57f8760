"""Room: the memory that the connections of one HTTP port hold, and whether there is room for more.

The rule: a client that reads nothing costs others nothing. A finished answer is sent at once; if it
does not fit, the connection whose client has moved nothing for the longest time is cut off. An
answer that waits for room before it is made leaves time for clients that do read.
"""

from collections.abc import Callable
from typing import Final

import trio

HELD_S: Final = 1.0
"""How long a connection may hold memory that others need while its client moves nothing. Data is
moved 64 KiB at a time: a client with half a megabit a second takes this long for one piece."""

LONG_AT_ONCE: Final = 2
"""Long answers made at the same time. They are in memory before their size is known, more of them
would not finish sooner, and each takes a turn in every pass, for which all others wait. With only
one, the loop would be idle while an answer is compressed in a thread."""


class Share:
    """The memory that one connection holds; ``cut`` ends the connection."""

    __slots__ = ("bytes", "cut", "patience_s", "since", "yielding")

    def __init__(self, cut: Callable[[], object]) -> None:
        self.cut = cut
        self.bytes = 0
        self.since = 0.0
        """When its client last took or sent a piece."""
        self.yielding = False
        """Whether it waits for its client, and may be cut off."""
        self.patience_s = HELD_S
        """How long its request may still wait before others are cut off at once."""

    def __repr__(self) -> str:
        return f"<Share of {self.bytes} bytes>"


class Room:
    """The bytes that all connections of a port hold.

    Invariant: ``bytes`` is the sum of all shares; ``_holders`` are the non-empty shares, first
    those whose clients have moved nothing for the longest time. A share that is cut off is removed,
    so each search for one ends.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._holders: dict[Share, None] = {}
        self._changed = trio.Event()
        self._long = trio.CapacityLimiter(LONG_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Room {self.bytes}/{self.bytes_max} bytes, {len(self._holders)} holders>"

    def begin(self, share: Share) -> None:
        """Note that a request is about to arrive."""
        share.patience_s = HELD_S

    async def take(self, share: Share, size: int, *, needed: bool = False) -> None:
        """Hold ``size`` more bytes as soon as there is room; a share that is alone always has room.
        With ``needed``, wait only for clients, since others may wait for this one, and only while
        they move something: readers of much more than there is room for take turns."""
        while self.bytes > share.bytes and self.bytes + size > self.bytes_max:
            is_patient = needed or share.patience_s > 0
            again_s = self._cut_longest(share, HELD_S if is_patient else 0.0)
            if again_s is None:
                if needed:
                    break
                again_s = HELD_S
            await self._wait(share, again_s)
        self.add(share, size)

    def add(self, share: Share, size: int) -> None:
        """Hold ``size`` more bytes, which exist already: others make room for them."""
        if not size:
            return
        if not share.bytes:
            share.since = trio.current_time()
            self._holders[share] = None
        share.bytes += size
        self.bytes += size
        while self.bytes > self.bytes_max and self._cut_longest(share, 0.0) is not None:
            pass

    def moved(self, share: Share) -> None:
        """Note that the client has taken or sent a piece."""
        if share in self._holders:
            share.since = trio.current_time()
            del self._holders[share]
            self._holders[share] = None

    def give_back(self, share: Share) -> None:
        """Give back everything that a share holds."""
        if share not in self._holders:
            return
        del self._holders[share]
        self.bytes -= share.bytes
        share.bytes = 0
        self._changed.set()
        self._changed = trio.Event()

    # Long answers

    async def begin_long(self, share: Share) -> None:
        """Wait until a long answer may be made, and until half of the room is free for it, but no
        longer than clients that do read need."""
        await self._long.acquire_on_behalf_of(share)
        try:
            while self.bytes - share.bytes > self.bytes_max // 2 and share.patience_s > 0:
                again_s = self._cut_longest(share, HELD_S)
                await self._wait(share, HELD_S if again_s is None else again_s)
        except BaseException:
            self._long.release_on_behalf_of(share)
            raise

    def end_long(self, share: Share) -> None:
        """Note that the long answer is made."""
        self._long.release_on_behalf_of(share)

    # Internal

    async def _wait(self, share: Share, seconds: float) -> None:
        """Wait until something is given back, or for ``seconds``."""
        if not seconds:
            return
        began = trio.current_time()
        with trio.move_on_after(seconds):
            await self._changed.wait()
        share.patience_s -= trio.current_time() - began

    def _cut_longest(self, share: Share, held_s: float) -> float | None:
        """Cut off another share whose client has moved nothing for ``held_s``; return in how many
        seconds to try again, or None if no share waits for its client."""
        now = trio.current_time()
        for each in self._holders:
            if each is share or not each.yielding:
                continue
            if each.since + held_s > now:
                return each.since + held_s - now
            each.cut()
            self.give_back(each)
            return 0.0
        return None
