"""Leadership: how one node comes to lead a shard, and stops.

The rule: a node *may* try if Pulsar's Failover subscription says so, or if the leader hands over to
it by name. Such a node tries only when no entry has been written, up to the very end of the topic,
for :data:`.SILENCE_S`, or for :data:`.GONE_S` if the leader is no longer connected, or when the
leader has resigned without handing over to another node. It leads once its TAKE counts, and serves
once every other lease has certainly ended. A node that loses leadership closes its whole engine
before it does anything else.

::

    FOLLOWING -> PROBING -> FENCING -> TAKING -> OPENING -> LEADING -> RESIGNING
        ^           |          |          |         `---------|-----------'
        `-----------'----------'----------'                CLOSING -> FOLLOWING
"""

import math
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from arneb_cluster.protocol.entries import Record
from arneb_cluster.protocol.lease import Lease, Silence
from arneb_cluster.protocol.reader import Verdict
from arneb_cluster.protocol.values import Place, Take

RETRY_S: Final = 1.0
"""The wait after a failed try."""

PROBE_S: Final = 2.0
"""A broker that has not said by then where the topic ends is asked again."""

TAKING_S: Final = 10.0
"""A TAKE not read by then is abandoned: the failure of a broker takes longer than that, and another
node may do better."""


RESIGNING_S: Final = 5.0
"""A resignation without a receipt by then is abandoned; the next leader waits for silence."""


class State(Enum):
    """The state of a node in a shard."""

    FOLLOWING = auto()
    PROBING = auto()
    """No node seems to write; it asks where the topic ends, to know that it has read everything."""
    FENCING = auto()
    """It opens the producer that fences off any other writer."""
    TAKING = auto()
    """Its TAKE is on its way; it reads the topic up to it."""
    OPENING = auto()
    """Its TAKE counts; the engine opens, and other leases run out."""
    LEADING = auto()
    RESIGNING = auto()
    """It no longer serves, and writes so to the topic."""
    CLOSING = auto()
    """The engine is being closed."""
    STOPPED = auto()
    """Its directory is unreliable or cannot grow; it does nothing more."""


MOVES: Final = {
    State.FOLLOWING: frozenset({State.PROBING, State.STOPPED}),
    State.PROBING: frozenset({State.FOLLOWING, State.FENCING, State.STOPPED}),
    State.FENCING: frozenset({State.FOLLOWING, State.TAKING, State.STOPPED}),
    State.TAKING: frozenset({State.FOLLOWING, State.OPENING, State.STOPPED}),
    State.OPENING: frozenset({State.LEADING, State.CLOSING}),
    State.LEADING: frozenset({State.RESIGNING, State.CLOSING}),
    State.RESIGNING: frozenset({State.CLOSING}),
    State.CLOSING: frozenset({State.FOLLOWING, State.STOPPED}),
    State.STOPPED: frozenset[State](),
}
"""The legal moves."""


class Act(Enum):
    """What the shell must do."""

    PROBE = "ask where the topic ends; then say probed()"
    SUSPECT = "ask for the Exclusive subscription that the active candidate holds"
    LOOK = "ask for the Exclusive subscription that the leader holds; say gone() if it is free"
    FENCE = "open the fencing producer; then say fenced(), or gave_up()"
    TAKE = "send the TAKE; read() says what came of it"
    UNFENCE = "close the producer"
    OPEN = "apply what counts, open the engine; then say opened()"
    SERVE = "let clients in"
    RESIGN = "let nobody in, close clients, write a resignation; then say resigned()"
    CLOSE = "give the engine up, and the producer; then say closed()"


@dataclass(slots=True)
class Leadership:
    """The machine of one node. Acts to be carried out gather in :attr:`acts`."""

    shard: str
    history: str
    node: str
    silence: Silence
    lease: Lease = field(default_factory=Lease)
    addresses: dict[str, str] = field(default_factory=dict)
    state: State = State.FOLLOWING
    acts: list[Act] = field(default_factory=list)
    take: Take | None = None
    """Its own TAKE of the last try."""
    serve_from: float = 0.0
    """When every other lease has ended."""
    why: str = ""
    """Why it stopped or last lost leadership."""
    successor: str = ""
    """The node it hands over to while it resigns."""
    _may_try: bool = False
    _retry_at: float = 0.0
    _deadline: float = 0.0
    _suspected_at: float | None = None
    _looked_for: float | None = None
    """The silence after which the leader was last looked for."""
    _failed: bool = False

    def __repr__(self) -> str:
        return f"<Leadership of {self.shard} at {self.node}, {self.state.name}>"

    def serves(self, now: float) -> bool:
        """Whether it may deliver and answer at this instant; must be asked each time."""
        return self.state is State.LEADING and now >= self.serve_from and self.lease.holds(now)

    def others_last_s(self, now: float) -> float:
        """Return how long other leases may still last; infinite: none does, and the caller waits
        for something other than time to pass."""
        return self.serve_from - now if now < self.serve_from else math.inf

    # Input

    def active(self, is_active: bool) -> None:
        """Take the Failover subscription's verdict whether it may try."""
        self._may_try = is_active

    def gone(self, now: float) -> None:
        """Note that the last leader is no longer connected, as the last query found."""
        if self.state is State.FOLLOWING and self._looked_for == self.silence.since:
            self.silence.gone = True
            self._look(now)

    def read(self, place: Place, entry: Take | Record | None, verdict: Verdict, now: float) -> None:
        """Take an entry of the topic; None: it is not of this protocol."""
        mine = self.take
        if isinstance(entry, Take) and mine is not None and entry.nonce == mine.nonce:
            if self.state is State.TAKING:
                if verdict is Verdict.TAKEN:
                    self._becomes(State.OPENING)
                    self.lease = Lease()
                    self.serve_from = self.silence.serve_from
                    self.acts.append(Act.OPEN)
                else:
                    self._give_up(now, f"its TAKE does not count: {verdict.value}")
            return
        if verdict is Verdict.SEEN:
            return
        resigned = verdict is Verdict.COUNTED and isinstance(entry, Record) and entry.is_resignation
        successor = entry.successor if resigned and isinstance(entry, Record) else ""
        self.silence.came(now, resigned=resigned, successor=successor)
        self._suspected_at = None
        if self.state is State.PROBING and not self.silence.may_try(now, self.node):
            self._becomes(State.FOLLOWING)
        if resigned:
            self._look(now)  # clients wait for every tick

    def probed(self, last: Place, read_up_to: Place, now: float) -> None:
        """Take the topic's end, and how far it was read."""
        if self.state is not State.PROBING:
            return
        if last > read_up_to or not self.silence.may_try(now, self.node):
            self._give_up(now, "the topic has more entries")
            return
        self._becomes(State.FENCING)
        self._deadline = now + TAKING_S
        self.acts.append(Act.FENCE)

    def fenced(self, epoch: int, nonce: str, now: float) -> None:
        """Note that the fencing producer is open."""
        if self.state is not State.FENCING:
            return
        # The nonce of the very first TAKE names the history that begins with it.
        history = self.history or nonce
        self.take = Take(self.shard, history, epoch, self.node, nonce, dict(self.addresses))
        self._becomes(State.TAKING)
        self._deadline = now + TAKING_S
        self.acts.append(Act.TAKE)

    def gave_up(self, why: str, now: float) -> None:
        """Note that the producer could not be opened, or is gone for good."""
        if self.state in (State.FENCING, State.TAKING):
            self._give_up(now, why)
        else:
            self.lost(why)

    def opened(self) -> None:
        """Note that the engine is open, with everything that counts."""
        if self.state is State.OPENING:
            self._becomes(State.LEADING)
            self.acts.append(Act.SERVE)

    def lost(self, why: str) -> None:
        """Give leadership up: the log has another leader, or cannot have this one."""
        if self.state in (State.OPENING, State.LEADING, State.RESIGNING):
            self._becomes(State.CLOSING)
            self.why = why
            self.acts.append(Act.CLOSE)

    def resign(self, why: str, successor: str = "") -> None:
        """Let another node lead, ``successor`` if given."""
        if self.state is State.LEADING:
            self._becomes(State.RESIGNING)
            self._deadline = math.inf
            self.why, self.successor = why, successor
            self.acts.append(Act.RESIGN)
        elif self.state is State.OPENING:
            self.lost(why)

    def resigned(self) -> None:
        """Note that the resignation is stored."""
        if self.state is State.RESIGNING:
            self._becomes(State.CLOSING)
            self.acts.append(Act.CLOSE)

    def closed(self, now: float) -> None:
        """Note that the engine is closed."""
        if self.state is State.CLOSING:
            self._becomes(State.STOPPED if self._failed else State.FOLLOWING)
            self.take = None
            self.silence.came(now)
            self._retry_at = now + RETRY_S

    def failed(self, why: str, now: float) -> None:
        """Note that a counting record could not be applied: a leader resigns, a follower stops."""
        self._failed = True
        if self.state in (State.OPENING, State.LEADING):
            self.resign(why)
        elif self.state not in (State.RESIGNING, State.CLOSING, State.STOPPED):
            if self.state in (State.FENCING, State.TAKING):
                self.acts.append(Act.UNFENCE)
            self._becomes(State.STOPPED)
        self.why = why

    def tick(self, now: float) -> None:
        """Handle the passing of time."""
        if self.state in (State.PROBING, State.FENCING, State.TAKING) and now >= self._deadline:
            self._give_up(now, f"no answer while {self.state.name}")
        if self.state is State.RESIGNING:
            self._deadline = min(self._deadline, now + RESIGNING_S)
            if now >= self._deadline:
                self.lost(self.why)
        self._look(now)

    # Inside

    def _look(self, now: float) -> None:
        """Try to lead, if it is time to."""
        if self.state is not State.FOLLOWING or now < self._retry_at:
            return
        permitted = self._may_try or self.silence.is_called(self.node)
        if permitted and self.silence.may_try(now, self.node):
            self._becomes(State.PROBING)
            self._deadline = now + PROBE_S
            self.acts.append(Act.PROBE)
        elif permitted:
            if self.silence.is_doubtful(now) and self._looked_for != self.silence.since:
                self._looked_for = self.silence.since
                self.acts.append(Act.LOOK)
        elif self.silence.is_suspect(now) and (
            self._suspected_at is None or now >= self._suspected_at + TAKING_S
        ):
            self._suspected_at = now
            self.acts.append(Act.SUSPECT)

    def _give_up(self, now: float, why: str) -> None:
        if self.state in (State.FENCING, State.TAKING):
            self.acts.append(Act.UNFENCE)
        self._becomes(State.FOLLOWING)
        self.why = why
        self._retry_at = now + RETRY_S

    def _becomes(self, state: State) -> None:
        assert state in MOVES[self.state], f"{self!r}: expected one of {MOVES[self.state]}, {state}"
        self.state = state
