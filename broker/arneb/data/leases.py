"""Leases: who holds a cursor and until when, and how that is stored.

The rule: a lease that has ended has ended for everybody, also after a restart: its end is on disk
before anybody relies on it, too early by at most a tenth of the lease. Pure: time is an argument.
"""

import json
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "data/lease/"
"""The prefix of the leases' keys; the topic's number and the subscription's name follow."""

LEASE_S_MIN: Final = 10
LEASE_S_MAX: Final = 10 * 366 * 24 * 3600
AFTER_START_MS: Final = 600_000
"""The time that a start adds to every lease, or the whole lease if that is shorter: nobody could
renew while the broker was down."""

SLACK: Final = 10
"""A renewal is written when it moves the end by more than the lease divided by this, so that a
query that renews every second does not write every second."""


@dataclass(slots=True)
class Lease:
    """The lease of one cursor; with ``lease_s`` None it lasts for ever."""

    topic_id: int
    subscription: str
    owner: str
    lease_s: int | None
    until_ms: int = 0
    """When it ends unless renewed; 0 = never."""
    stored_ms: int = -1
    """The end that is on disk."""

    @property
    def key(self) -> str:
        """The lease's key in the store."""
        return key_of(self.topic_id, self.subscription)

    def renew(self, now_ms: int) -> None:
        """Restart the lease's time."""
        if self.lease_s is not None:
            self.until_ms = max(self.until_ms, now_ms + 1000 * self.lease_s)

    def change(self, lease_s: int | None) -> None:
        """Change how long the lease lasts."""
        self.lease_s, self.until_ms, self.stored_ms = lease_s, 0, -1

    @property
    def is_unstored(self) -> bool:
        """Whether the end on disk is too early."""
        if self.stored_ms < 0:
            return True
        return self.lease_s is not None and (
            self.until_ms - self.stored_ms > 1000 * self.lease_s // SLACK
        )

    def has_ended(self, now_ms: int) -> bool:
        """Whether the lease has ended without a renewal."""
        return self.lease_s is not None and self.until_ms <= now_ms

    def pack(self) -> bytes:
        """Return the lease as stored."""
        fields = {"owner": self.owner, "lease_s": self.lease_s, "until_ms": self.until_ms}
        return json.dumps(fields).encode()


def key_of(topic_id: int, subscription: str) -> str:
    """Return the key of a cursor's lease."""
    return f"{PREFIX}{topic_id:08x}/{subscription}"


def restored(key: str, value: bytes, now_ms: int) -> Lease:
    """Return a stored lease when the broker starts, with time to renew it."""
    number, _, subscription = key.removeprefix(PREFIX).partition("/")
    fields = json.loads(value)
    lease = Lease(
        int(number, 16), subscription, fields["owner"], fields["lease_s"], fields["until_ms"],
        stored_ms=fields["until_ms"],
    )  # fmt: skip
    if lease.lease_s is not None:
        grace_ms = min(1000 * lease.lease_s, AFTER_START_MS)
        lease.until_ms = max(lease.until_ms, now_ms + grace_ms)
    return lease
