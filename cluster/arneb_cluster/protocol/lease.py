"""The lease: until when a leader may deliver and answer, and from when on the next one may.

The rule: two leaders never serve at once, whatever is late. A leader serves for :data:`LEASE_S`
from when it sent the last record that has its receipt. That record came to every reader later than
it was sent; so whoever waits that long, and a margin, after the last entry of anybody else came,
begins when the other has ended. The clock goes on while the machine sleeps.
"""

import math
from dataclasses import dataclass
from typing import Final

LEASE_S: Final = 2.0
HEARTBEAT_S: Final = 1.0
"""Half of a lease: one heartbeat may be late."""
SILENCE_S: Final = 2.5
"""Without an entry for so long a candidate may try: a lease and half a heartbeat. Two heartbeats
are missing then, and a leader that has stored nothing for a lease's time serves nobody any more. A
longer silence only makes a take-over longer, of which it is nearly all."""
GONE_S: Final = 1.3
"""Without an entry for so long a candidate asks whether the leader is there still, and tries if it
is not: a heartbeat and its way are missing then, and its connection has ended. Who tries so early
serves no sooner than the last lease can have ended; its engine opens meanwhile."""
SUSPECT_S: Final = 1.5
"""Without an entry for so long the broker is made to look whether the active candidate lives."""
MARGIN_S: Final = 0.2
"""What two clocks may run apart while a lease lasts: a tenth of it, where quartz does a
hundred-thousandth; a clock that is slewed may do a thousandth."""

assert HEARTBEAT_S < GONE_S < LEASE_S + MARGIN_S <= SILENCE_S


@dataclass(slots=True)
class Lease:
    """A leader's own."""

    until: float = -math.inf

    def renewed(self, sent_at: float) -> None:
        """What was sent then has its receipt."""
        self.until = max(self.until, sent_at + LEASE_S)

    def holds(self, now: float) -> bool:
        """It may deliver and answer."""
        return now < self.until


@dataclass(slots=True)
class Silence:
    """How long nobody else has written, as seen by a reader."""

    since: float
    """When the last entry of anybody else came, or when reading began."""
    resigned: bool = False
    """Whoever led has said that it writes nothing more."""
    successor: str = ""
    """To whom it handed over; empty: to whoever is active."""
    gone: bool = False
    """Whoever led is not connected to Pulsar any more."""
    never_written: bool = False
    """Nobody has ever written, as far as was read: no lease can last, and nobody is waited for."""

    def came(self, now: float, *, resigned: bool = False, successor: str = "") -> None:
        """An entry that somebody else wrote."""
        self.since, self.resigned, self.successor = now, resigned, successor
        self.never_written = self.gone = False

    def is_over(self, now: float) -> bool:
        """Nobody leads, as far as can be seen."""
        return self.never_written or self.resigned or self._is_long(now)

    def may_try(self, now: float, node: str) -> bool:
        """That node need not wait for anybody. A successor comes first; that it does not come the
        others see as they see it of a leader."""
        at_once = self.resigned and self.successor in ("", node)
        return at_once or self.never_written or self._is_long(now)

    def is_doubtful(self, now: float) -> bool:
        """Somebody who may try should ask whether the leader is there still."""
        return not self.gone and now >= self.since + GONE_S

    def is_called(self, node: str) -> bool:
        """The leader has handed over to that node, which may try whoever is active."""
        return self.resigned and self.successor == node

    def is_suspect(self, now: float) -> bool:
        """Somebody should look whether the active candidate lives: a leader that writes nothing, or
        whoever should have gone on behind a resignation."""
        return now >= self.since + SUSPECT_S

    def _is_long(self, now: float) -> bool:
        return now >= self.since + (GONE_S if self.gone else SILENCE_S)

    @property
    def serve_from(self) -> float:
        """When no lease of anybody else lasts any more."""
        nobody_serves = self.resigned or self.never_written
        return -math.inf if nobody_serves else self.since + LEASE_S + MARGIN_S
