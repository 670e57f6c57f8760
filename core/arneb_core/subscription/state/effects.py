"""Effects: what a subscription wants done, as values.

The rule: a subscription decides and does no I/O. Everything that reaches beyond its own memory (a
consumer's client, the disk, a clock, its topic) is put here as a value, per run and not per
message; :mod:`arneb_core.engine.subscriptions.subscription` carries it out, and tests compare it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.callbacks import Done, call
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.log.durable_log import Runs
from arneb_core.subscription.state.in_flight import InFlight

Found = Runs | StoreFailed
"""What a read found, or why it failed."""


@dataclass(frozen=True, slots=True)
class HasWork:
    """A turn would find something to do. Sent once until that turn comes."""


@dataclass(frozen=True, slots=True)
class WriteCursor:
    """Write the cursor, which differs from what is on disk, and call ``done``. Without ``done`` the
    write may take a while, and this is sent once until the changes are taken."""

    done: Done | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell ``done`` that the acknowledgement it waits for failed."""

    done: Done
    error: StoreFailed


@dataclass(frozen=True, slots=True)
class Read:
    """Read entries from ``position`` on, about ``bytes_max`` bytes and at least one entry;
    ``ReadDone`` brings the answer."""

    number: int
    position: Position
    bytes_max: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Give it a turn at ``when_ms``, when something becomes due or expires."""

    when_ms: int


@dataclass(frozen=True, slots=True)
class Continue:
    """There is more to look through once others had their turn: ``Continued`` answers."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Something failed: send ``Retried`` a little later. ``is_read``: it was a read."""

    is_read: bool


@dataclass(frozen=True, slots=True)
class NoConsumers:
    """The last consumer left."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send the run, which is in flight at the consumer, to its client. If that fails, the consumer
    is to be put out."""

    consumer: InFlight
    run: Deliveries


@dataclass(frozen=True, slots=True)
class Depart:
    """Pass the run, which is in flight at the holder, to the dead-letter target, which acknowledges
    it there. If that fails, ``NotTaken`` says so. ``parts``: the messages of divided batches that
    depart."""

    reason: Departure
    run: Deliveries
    holder: InFlight
    parts: dict[Position, int] | None = None


@dataclass(frozen=True, slots=True)
class ActiveChanged:
    """A failover consumer became the active one, or no longer is."""

    consumer: InFlight
    is_active: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """The consumer was detached without asking for it."""

    consumer: InFlight
    reason: str


Order = HasWork | WriteCursor | Refuse | Read | WakeAt | Continue | TryAgain | NoConsumers
"""For the engine, which notes them at once; none of them calls back into the subscription before
that has finished its step."""

Call = Deliver | Depart | ActiveChanged | Closed
"""For clients, whose code may do anything: made only when the state they report is complete."""

Effect = Order | Call

HAS_WORK: Final = HasWork()
CURSOR_CHANGED: Final = WriteCursor()


class Outbox:
    """The effects of one subscription, on their way to whoever carries them out.

    Orders are put through at once. Calls wait for :meth:`flush`, which the subscription makes
    whenever what they report is complete: a run was shared out, a consumer came.
    """

    __slots__ = ("_made", "_next_read", "_reads", "calls", "put")

    def __init__(self, carry_out: Callable[[Effect], None]) -> None:
        self.put = carry_out
        """Have an order carried out."""
        self.calls: list[Call] = []
        """Calls for the next :meth:`flush`, in order: one for each of thousands of consumers when a
        queue is removed. Not a deque, which takes ten times the memory while it is empty."""
        self._made = 0
        """How many of :attr:`calls` the flush under way has made."""
        self._reads: dict[int, Callable[[Found], None]] = {}
        self._next_read = 0

    def __repr__(self) -> str:
        return f"<Outbox {len(self.calls) - self._made} calls, {len(self._reads)} reads under way>"

    def flush(self) -> None:
        """Make the calls in order; calls that these cause come after them."""
        calls = self.calls
        # A call may flush again, which makes the ones after it.
        while self._made < len(calls):
            self._made += 1
            self.put(calls[self._made - 1])
        self.drop_calls()

    def drop_calls(self) -> None:
        """Drop the calls that wait."""
        self.calls.clear()
        self._made = 0

    def read(self, position: Position, bytes_max: int, then: Callable[[Found], None]) -> None:
        """Ask for a read; ``then`` gets the answer when it comes."""
        number = self._next_read
        self._next_read += 1
        self._reads[number] = then
        self.put(Read(number, position, bytes_max))

    def read_done(self, number: int, found: Found) -> None:
        """Pass on the answer to the read ``number``."""
        then = self._reads.pop(number)
        # Nothing on disk changes here. A receiver that fails on the answer is told that the read
        # failed, and treats it as such: nothing is skipped, and it is read again.
        if not call(then, found):
            call(then, StoreFailed("what was read could not be taken in"))
