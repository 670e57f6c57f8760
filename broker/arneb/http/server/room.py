"""Room: what the connections of one HTTP port make the broker hold, and whether there is more.

The rule: a client that reads nothing costs others nothing. Answers that are made go out at once,
and where they do not fit, whoever has taken nothing for the longest time is cut off. Who waits for
room, before there is anything to be held, waits so that clients who do read are through before.
"""

from collections.abc import Callable
from typing import Final

import trio

HELD_S: Final = 1.0
"""How long a connection may hold something that others need and move nothing of it. It is given, or
asked for, 64 KiB at a time: a client of half a megabit a second takes that long for one."""

LONG_AT_ONCE: Final = 2
"""Long answers that are made at the same time. They are in memory before it is known how large they
are, the loop does not make them sooner if there are more, and each has a turn in every pass, for
which all others wait. One would stand still while another is packed in a thread."""


class Share:
    """What one connection holds. ``cut`` ends it."""

    __slots__ = ("bytes", "cut", "patience_s", "since", "yielding")

    def __init__(self, cut: Callable[[], object]) -> None:
        self.cut = cut
        self.bytes = 0
        self.since = 0.0
        """When its client last took, or brought, a piece of what it holds."""
        self.yielding = False
        """It waits for its client, and may be cut off."""
        self.patience_s = HELD_S
        """How long its request may still wait for others before they are cut off at once."""

    def __repr__(self) -> str:
        return f"<Share of {self.bytes} bytes>"


class Room:
    """The bytes that all connections of a port hold.

    Invariant: ``bytes`` is the sum of all shares; ``_holders`` are those that hold more than
    nothing, first those whose clients have moved nothing for the longest time. So whoever is cut
    off is no holder any more, and each look for one ends.
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
        """A request is about to come."""
        share.patience_s = HELD_S

    async def take(self, share: Share, size: int, *, needed: bool = False) -> None:
        """Hold ``size`` more, as soon as there is room; one that is alone always has room. With
        ``needed`` it is waited for clients only, for others may be waiting for this one, and as
        long as they move something: readers of much more than there is room for take turns."""
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
        """Hold ``size`` more, which cannot be helped: others make room for it."""
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
        """Its client has taken a piece, or brought one."""
        if share in self._holders:
            share.since = trio.current_time()
            del self._holders[share]
            self._holders[share] = None

    def give_back(self, share: Share) -> None:
        """Hold nothing any more."""
        if share not in self._holders:
            return
        del self._holders[share]
        self.bytes -= share.bytes
        share.bytes = 0
        self._changed.set()
        self._changed = trio.Event()

    # Long answers

    async def begin_long(self, share: Share) -> None:
        """Wait until a long answer may be made, and until half of the room is there for it, if that
        takes no longer than clients who do read need."""
        await self._long.acquire_on_behalf_of(share)
        try:
            while self.bytes - share.bytes > self.bytes_max // 2 and share.patience_s > 0:
                again_s = self._cut_longest(share, HELD_S)
                await self._wait(share, HELD_S if again_s is None else again_s)
        except BaseException:
            self._long.release_on_behalf_of(share)
            raise

    def end_long(self, share: Share) -> None:
        """It is made."""
        self._long.release_on_behalf_of(share)

    # Inside

    async def _wait(self, share: Share, seconds: float) -> None:
        """Until something was given back, or so long at the most."""
        if not seconds:
            return
        began = trio.current_time()
        with trio.move_on_after(seconds):
            await self._changed.wait()
        share.patience_s -= trio.current_time() - began

    def _cut_longest(self, share: Share, held_s: float) -> float | None:
        """Cut off somebody else who has moved nothing for ``held_s``; in how many seconds to look
        again, None = nobody waits for a client."""
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
