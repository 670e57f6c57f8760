"""Leases: whose a cursor is, and until when; what is kept of that.

The rule: a lease that has ended has ended for everybody, after a restart too: its end is on disk
before anybody relies on it, and at most a tenth of it too early. Pure but for the clock that it is
told.
"""

import json
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "data/lease/"
"""Of the keys under which they are kept: the topic's number and the subscription's name follow."""

LEASE_S_MIN: Final = 10
LEASE_S_MAX: Final = 10 * 366 * 24 * 3600
AFTER_START_MS: Final = 600_000
"""While the broker was down nobody could renew: a start gives everybody so much, or all of the
lease if that is shorter."""

SLACK: Final = 10
"""A renewal is written when it moves the end by more than this part of the lease; so a query that
renews every second does not write every second."""


@dataclass(slots=True)
class Lease:
    """Who holds one cursor. ``lease_s`` None = for ever."""

    topic_id: int
    subscription: str
    owner: str
    lease_s: int | None
    until_ms: int = 0
    """When it ends, unless it is renewed; 0 = never."""
    stored_ms: int = -1
    """The end that is on disk."""

    @property
    def key(self) -> str:
        """Where it is kept."""
        return key_of(self.topic_id, self.subscription)

    def renew(self, now_ms: int) -> None:
        """It lasts as long again from now on."""
        if self.lease_s is not None:
            self.until_ms = max(self.until_ms, now_ms + 1000 * self.lease_s)

    def change(self, lease_s: int | None) -> None:
        """From now on it lasts so long."""
        self.lease_s, self.until_ms, self.stored_ms = lease_s, 0, -1

    @property
    def is_unstored(self) -> bool:
        """What is on disk would end too early."""
        if self.stored_ms < 0:
            return True
        return self.lease_s is not None and (
            self.until_ms - self.stored_ms > 1000 * self.lease_s // SLACK
        )

    def has_ended(self, now_ms: int) -> bool:
        """Nobody has renewed it in time."""
        return self.lease_s is not None and self.until_ms <= now_ms

    def pack(self) -> bytes:
        """As it is kept."""
        fields = {"owner": self.owner, "lease_s": self.lease_s, "until_ms": self.until_ms}
        return json.dumps(fields).encode()


def key_of(topic_id: int, subscription: str) -> str:
    """Where the lease of a cursor is kept."""
    return f"{PREFIX}{topic_id:08x}/{subscription}"


def restored(key: str, value: bytes, now_ms: int) -> Lease:
    """What was kept, when the broker starts."""
    number, _, subscription = key.removeprefix(PREFIX).partition("/")
    said = json.loads(value)
    lease = Lease(
        int(number, 16), subscription, said["owner"], said["lease_s"], said["until_ms"],
        stored_ms=said["until_ms"],
    )  # fmt: skip
    if lease.lease_s is not None:
        grace_ms = min(1000 * lease.lease_s, AFTER_START_MS)
        lease.until_ms = max(lease.until_ms, now_ms + grace_ms)
    return lease
