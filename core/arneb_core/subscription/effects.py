"""Effects: what a subscription wants done, and has others do.

The rule: a subscription decides and does nothing. Everything that reaches beyond its own memory (a
consumer's client, the disk, a clock, its topic) is put here as a value, a run and not a message at
a time; :mod:`arneb_core.engine.subscription` carries it out, and a test only looks at it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_core.api.callbacks import Done, call
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import StoreFailed
from arneb_core.api.limits import Departure
from arneb_core.api.position import Position
from arneb_core.log.durable_log import Runs
from arneb_core.subscription.in_flight import InFlight

Found = Runs | StoreFailed
"""What a read brought, or why it failed."""


@dataclass(frozen=True, slots=True)
class HasWork:
    """A turn would find something to do; it is said once until that turn comes."""


@dataclass(frozen=True, slots=True)
class WriteCursor:
    """The cursor differs from what is on disk. ``done`` is told when it no longer does; without
    one it may take a while, and is said once until the changes are taken."""

    done: Done | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """What was to be acknowledged cannot be; whoever waits for that is told so."""

    done: Done
    error: StoreFailed


@dataclass(frozen=True, slots=True)
class Read:
    """Read entries from ``place`` on, about that many bytes, at least one entry; ``ReadDone``
    brings the answer."""

    number: int
    place: Position
    bytes_max: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Something becomes due, or expires, then: a turn at that time."""

    when_ms: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """There is more to look through, at once but in the next step: ``GoneOn`` answers."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Something failed: ``Retried`` a little later. ``is_read``: it was a read."""

    is_read: bool


@dataclass(frozen=True, slots=True)
class NoConsumers:
    """The last consumer left."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The run is in flight at the consumer: have its client get it. Should that fail, the consumer
    is to be put out."""

    consumer: InFlight
    run: Deliveries


@dataclass(frozen=True, slots=True)
class Depart:
    """The run, which is in flight at the holder, leaves the subscription; whoever gets its dead
    letters acknowledges it there. Should that fail, ``NotTaken`` says so. ``parts``: of divided
    batches, what departs."""

    reason: Departure
    run: Deliveries
    holder: InFlight
    parts: dict[Position, int] | None = None


@dataclass(frozen=True, slots=True)
class ActiveChanged:
    """A failover consumer is the active one now, or is not."""

    consumer: InFlight
    is_active: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """The consumer was detached, though it did not ask."""

    consumer: InFlight
    reason: str


Order = HasWork | WriteCursor | Refuse | Read | WakeAt | GoOn | TryAgain | NoConsumers
"""For the engine: it makes a note of them at once, and none comes back into the subscription
before that has done what it is about."""

Call = Deliver | Depart | ActiveChanged | Closed
"""For clients, whose code may do anything: they are told when what they are told is complete."""

Effect = Order | Call

HAS_WORK: Final = HasWork()
CURSOR_CHANGED: Final = WriteCursor()


class Outbox:
    """The effects of one subscription, on their way to whoever carries them out.

    Orders go there at once; calls when the subscription says so (:meth:`flush`), which it does
    whenever it has finished what they are about: a run that was shared out, a consumer that came.
    """

    __slots__ = ("_made", "_next_read", "_reads", "calls", "put")

    def __init__(self, carry_out: Callable[[Effect], None]) -> None:
        self.put = carry_out
        """Have an order carried out."""
        self.calls: list[Call] = []
        """To be made with the next :meth:`flush`, in order: one for each of thousands of consumers
        when a queue goes. No deque, which takes ten times as much while it is empty."""
        self._made = 0
        """Of :attr:`calls`, while they are being made."""
        self._reads: dict[int, Callable[[Found], None]] = {}
        self._next_read = 0

    def __repr__(self) -> str:
        return f"<Outbox {len(self.calls) - self._made} calls, {len(self._reads)} reads under way>"

    def flush(self) -> None:
        """Have the calls made, in order; what these bring about comes behind them."""
        calls = self.calls
        # A call may come back here, which makes the ones behind it.
        while self._made < len(calls):
            self._made += 1
            self.put(calls[self._made - 1])
        self.drop_calls()

    def drop_calls(self) -> None:
        """None is to be made any more."""
        self.calls.clear()
        self._made = 0

    def read(self, place: Position, bytes_max: int, then: Callable[[Found], None]) -> None:
        """Have entries read; ``then`` gets them when the answer comes in."""
        number = self._next_read
        self._next_read += 1
        self._reads[number] = then
        self.put(Read(number, place, bytes_max))

    def read_done(self, number: int, found: Found) -> None:
        """The answer to the read of that number."""
        then = self._reads.pop(number)
        # Nothing on disk changes here. Who cannot make anything of what was read is told that it
        # was not, and does what is to be done then: nothing is skipped, and it is read again.
        if not call(then, found):
            call(then, StoreFailed("what was read could not be taken in"))
