"""The lease: until when a leader may deliver and answer, and from when the next one may.

The rule: two leaders never serve at once, whatever the delays. A leader serves for :data:`LEASE_S`
from when it sent the last record that has its receipt. Every reader got that record after it was
sent; so a node that waits that long, plus a margin, after it received another node's last entry
begins only when the other's lease has ended. The clock continues while the machine sleeps.
"""

import math
from dataclasses import dataclass
from typing import Final

LEASE_S: Final = 2.0
HEARTBEAT_S: Final = 1.0
"""Half a lease: one heartbeat may be late."""
SILENCE_S: Final = 2.5
"""After this long without an entry a candidate may try: a lease and half a heartbeat. By then two
heartbeats are missing, and a leader that has stored nothing for a lease's time no longer serves. A
longer silence would only lengthen takeovers, which consist of little else."""
GONE_S: Final = 1.3
"""After this long without an entry a candidate asks whether the leader is still there, and tries if
it is not: a heartbeat and its transit are missing then, and the connection has ended. A node that
tries so early serves no sooner than the last lease can have ended; its engine opens meanwhile."""
SUSPECT_S: Final = 1.5
"""After this long without an entry the broker is made to check whether the active candidate is
alive."""
MARGIN_S: Final = 0.2
"""How far two clocks may drift apart during a lease: a tenth of it, where quartz drifts a
hundred-thousandth; a slewed clock may drift a thousandth."""

assert HEARTBEAT_S < GONE_S < LEASE_S + MARGIN_S <= SILENCE_S


@dataclass(slots=True)
class Lease:
    """A leader's own lease."""

    until: float = -math.inf

    def renewed(self, sent_at: float) -> None:
        """Extend it: what was sent at ``sent_at`` has its receipt."""
        self.until = max(self.until, sent_at + LEASE_S)

    def holds(self, now: float) -> bool:
        """Whether the leader may deliver and answer."""
        return now < self.until


@dataclass(slots=True)
class Silence:
    """How long no other node has written, as a reader sees it."""

    since: float
    """When the last entry of another node came, or when reading began."""
    resigned: bool = False
    """Whether the last leader has resigned."""
    successor: str = ""
    """The node it handed over to; empty: whichever is active."""
    gone: bool = False
    """Whether the last leader is no longer connected to Pulsar."""
    never_written: bool = False
    """Whether no node has ever written, as far as was read: there can be no lease, and nothing to
    wait for."""

    def came(self, now: float, *, resigned: bool = False, successor: str = "") -> None:
        """Note an entry that another node wrote."""
        self.since, self.resigned, self.successor = now, resigned, successor
        self.never_written = self.gone = False

    def is_over(self, now: float) -> bool:
        """Whether no node leads, as far as can be seen."""
        return self.never_written or self.resigned or self._is_long(now)

    def may_try(self, now: float, node: str) -> bool:
        """Whether that node may try without waiting for another. A successor comes first; the
        others notice its absence as they notice a leader's."""
        at_once = self.resigned and self.successor in ("", node)
        return at_once or self.never_written or self._is_long(now)

    def is_doubtful(self, now: float) -> bool:
        """Whether a node that may try should ask if the leader is still there."""
        return not self.gone and now >= self.since + GONE_S

    def is_called(self, node: str) -> bool:
        """Whether the leader has handed over to that node, which may then try whoever is active."""
        return self.resigned and self.successor == node

    def is_suspect(self, now: float) -> bool:
        """Whether the active candidate should be checked: it may be a leader that writes nothing,
        or one that should have taken over after a resignation."""
        return now >= self.since + SUSPECT_S

    def _is_long(self, now: float) -> bool:
        return now >= self.since + (GONE_S if self.gone else SILENCE_S)

    @property
    def serve_from(self) -> float:
        """When every other node's lease has ended."""
        nobody_serves = self.resigned or self.never_written
        return -math.inf if nobody_serves else self.since + LEASE_S + MARGIN_S
