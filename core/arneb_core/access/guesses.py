"""Guesses: whoever is refused again and again is answered later and later, address by address.

The rule: a refusal takes the longer the more there were from that address, and only a few proofs of
an address are looked at, or refused, at a time; so a dictionary is not gone through in a day. Who
is right at once is not held up.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

FREE_REFUSALS: Final = 3
"""Mistakes of an address that cost it nothing: a typing error, a stale secret."""

REFUSAL_S: Final = 0.25
REFUSAL_S_MAX: Final = 3.0
"""What the first refusal costs that is not free, and each later one twice as much, up to this."""

AT_ONCE: Final = 8
"""Logins of one address that are looked at, or refused, at a time."""

FORGIVEN_S: Final = 60.0
"""After so long without a mistake an address is as good as any."""

ADDRESSES_MAX: Final = 10_000
"""Remembered at a time: those that went wrong longest ago are forgotten first."""


class Guesser:
    """What is known of one address."""

    __slots__ = ("_last_s", "_refusals", "crowd")

    def __init__(self) -> None:
        self.crowd = trio.CapacityLimiter(AT_ONCE)
        self._refusals = 0
        self._last_s = 0.0

    def __repr__(self) -> str:
        return f"<Guesser {self._refusals} refusals, {self.crowd.borrowed_tokens} looked at>"

    async def refused(self) -> None:
        """A proof does not hold: wait before that is said."""
        await trio.sleep(self._late_s())

    def forgive(self) -> None:
        """A proof holds: all is well."""
        self._refusals = 0

    def _late_s(self) -> float:
        now = trio.current_time()
        if now - self._last_s > FORGIVEN_S:
            self._refusals = 0
        self._refusals += 1
        self._last_s = now
        costly = self._refusals - FREE_REFUSALS
        return 0.0 if costly <= 0 else min(REFUSAL_S * 2 ** (costly - 1), REFUSAL_S_MAX)


class Guesses:
    """The addresses that come to one door."""

    def __init__(self) -> None:
        self._addresses: dict[str, Guesser] = {}

    def __repr__(self) -> str:
        return f"<Guesses of {len(self._addresses)} addresses>"

    @asynccontextmanager
    async def looking(self, address: str) -> AsyncIterator[Guesser]:
        """While the block runs a proof from there is looked at; few are at a time. Not each
        time a checkpoint."""
        guesser = self._addresses.get(address)
        if guesser is None:
            guesser = self._addresses[address] = Guesser()
            if len(self._addresses) > ADDRESSES_MAX:
                del self._addresses[next(iter(self._addresses))]
        try:
            guesser.crowd.acquire_nowait()
        except trio.WouldBlock:
            await guesser.crowd.acquire()
        try:
            yield guesser
        finally:
            guesser.crowd.release()
