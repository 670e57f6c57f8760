"""Guesses: repeated refusals of an address are answered more and more slowly.

The rule: a refusal takes longer the more there were from that address, and only a few of its proofs
are checked, or refused, at a time, so that no dictionary is worked through in a day. A proof that
is right at the first try is not delayed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

FREE_REFUSALS: Final = 3
"""Free mistakes of an address: a typing error, a stale secret."""

REFUSAL_S: Final = 0.25
REFUSAL_S_MAX: Final = 3.0
"""Delay of the first refusal that is not free, doubled by each later one, up to the maximum."""

LOGINS_AT_ONCE_MAX: Final = 8
"""Logins of one address that are checked, or refused, at a time."""

FORGIVEN_S: Final = 60.0
"""Time without a mistake after which an address has a clean slate."""

ADDRESSES_MAX: Final = 10_000
"""Addresses remembered at a time; the oldest are forgotten first."""


class Guesser:
    """What is known of one address."""

    __slots__ = ("_last_s", "_refusals", "crowd")

    def __init__(self) -> None:
        self.crowd = trio.CapacityLimiter(LOGINS_AT_ONCE_MAX)
        self._refusals = 0
        self._last_s = 0.0

    def __repr__(self) -> str:
        return f"<Guesser {self._refusals} refusals, {self.crowd.borrowed_tokens} looked at>"

    async def refused(self) -> None:
        """Count a failed proof, and wait before it is reported."""
        await trio.sleep(self._late_s())

    def forgive(self) -> None:
        """Forget the mistakes, after a proof that holds."""
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
    """The addresses that log in at one frontend."""

    def __init__(self) -> None:
        self._addresses: dict[str, Guesser] = {}

    def __repr__(self) -> str:
        return f"<Guesses of {len(self._addresses)} addresses>"

    @asynccontextmanager
    async def looking(self, address: str) -> AsyncIterator[Guesser]:
        """Check a proof from ``address`` in the block, few at a time. Not always a checkpoint."""
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
