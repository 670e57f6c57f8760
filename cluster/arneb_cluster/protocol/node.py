"""A node of a shard: its reader, its leadership and, while it leads, its window, as one machine.

The rule: its effects are in :attr:`Node.effects`, in order; the shell carries them out and reports
the results, however late. Results of effects from before leadership was lost change nothing. A
leader reads its own topic: an entry with a receipt is reported as stored only when everything up to
it was read without another node's TAKE.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_cluster.protocol.entries import (
    FIRST_VERSION,
    VERSION,
    Record,
    encode_take,
    is_record,
)
from arneb_cluster.protocol.leadership import Act, Leadership, State
from arneb_cluster.protocol.lease import HEARTBEAT_S, Silence
from arneb_cluster.protocol.reader import Commit, LogReader, Verdict
from arneb_cluster.protocol.stamps import SkewWatch, Stamps
from arneb_cluster.protocol.values import NOWHERE, Applied, Link, Place
from arneb_cluster.protocol.window import (
    Item,
    Lost,
    ReadBack,
    Reattach,
    Send,
    SendError,
    Stored,
    Window,
)

TAKE_SEQUENCE: Final = 0
"""The TAKE is the first entry a fencing producer sends."""

HISTORY_S: Final = 30.0
"""How often even a busy leader states its history: a node that reads from where a topic was trimmed
reads no more than this before it knows the history."""

UNREAD_S: Final = 10.0
"""A leader that cannot read for this long what it has stored gives up: it serves no client, while
its heartbeats keep others from leading."""

Ended = Callable[[], None]
"""Called when a commit is stored and applied."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply this to the directory, in order; then, for the leader's own commit, call ``ended``."""

    commit: Commit
    ended: Ended | None


@dataclass(frozen=True, slots=True)
class _Unread:
    """A record with a receipt, waiting until everything up to it is read."""

    place: Place
    sent_at: float
    reported_at: float
    apply: Apply


Effect = Act | Send | ReadBack | Reattach | Apply


class Node:
    """One node's part in one shard."""

    def __init__(
        self,
        shard: str,
        node: str,
        applied: Applied,
        now: float,
        addresses: dict[str, str] | None = None,
    ) -> None:
        self._shard = shard
        self.reader = LogReader(shard, applied)
        silence = Silence(now, never_written=not applied.history and applied.place == NOWHERE)
        self.leadership = Leadership(
            shard, applied.history, node, silence, addresses=addresses or {}
        )
        self.window: Window | None = None
        self.stamps = Stamps(applied.stamp_ms)
        self.skew = SkewWatch()
        self.lacks = False
        """Whether it has stopped because the topic no longer has what its directory lacks: with a
        copy it could continue."""
        self.effects: list[Effect] = []
        self._entry_bytes_max = 0
        self._version = VERSION
        self._attached = False
        self._resigns = False
        """Whether its resignation must be written as soon as possible."""
        self._sent_at = self._said_at = now
        self._unread: deque[_Unread] = deque()

    def __repr__(self) -> str:
        return f"<Node {self.leadership!r}, {self.window or self.reader!r}>"

    @property
    def state(self) -> State:
        return self.leadership.state

    # The topic

    def read(self, place: Place, data: bytes, now: float, clock_ms: int | None = None) -> None:
        """Take the next entry. Raises :class:`.UnknownVersion`. ``clock_ms``: when it came, if that
        may be compared with its leader's stamp."""
        if self.state in (State.CLOSING, State.STOPPED):
            return
        if self.window is not None:
            self._read_own(place, data, self.window)
            self._gather()
            return
        verdict, commit = self.reader.read(place, data)
        entry = self.reader.entry
        if commit is not None:
            self.effects.append(Apply(commit, None))
        self.leadership.history = self.reader.history or self.leadership.history
        if verdict is Verdict.TAKEN:
            self.skew = SkewWatch()  # another clock
        if verdict is Verdict.COUNTED and isinstance(entry, Record) and clock_ms is not None:
            self.skew.came(entry.stamp_ms, clock_ms)
        self.leadership.read(place, entry, verdict, now)
        if verdict in (Verdict.UNCHAINED, Verdict.LACKING):
            self.lacks = verdict is Verdict.LACKING
            what = f"expected record {self.reader.link.number + 1} at {place} or before it"
            self.leadership.failed(f"{what}, got {verdict.value}: take a copy", now)
        elif self.state is State.OPENING:
            self._begin(now)
        self._gather()

    def probed(self, last: Place, now: float) -> None:
        """Take the topic's end."""
        self.leadership.probed(last, self.reader.place, now)
        self._gather()

    # The producer

    def fenced(self, epoch: int, entry_bytes_max: int, nonce: str, now: float) -> None:
        """Note that the fencing producer is open, at a broker with this entry size limit."""
        self._entry_bytes_max, self._attached = entry_bytes_max, True
        self.leadership.fenced(epoch, nonce, now)
        self._gather()

    def attached(self, now: float) -> None:
        """Note that the producer has reconnected, with its epoch."""
        self._attached = True
        if self.window is not None:
            self.window.attached(now)
        elif self.state is State.TAKING:
            self._send_take()
        self._gather()

    def detached(self) -> None:
        """Note that the producer's connection is gone; it reconnects, or :meth:`gave_up` says that
        it cannot."""
        self._attached = False
        if self.window is not None:
            self.window.detached()

    def receipt(self, sequence: int, place: Place, now: float) -> None:
        """Take a broker's receipt. That the TAKE is stored is known when it is read."""
        if self.window is not None:
            self.window.receipt(sequence, place, now)
        self._gather()

    def refused(self, sequence: int, error: SendError, why: str, now: float) -> None:
        """Take a broker's refusal."""
        if self.window is not None:
            self.window.refused(sequence, error, why, now)
        elif self.state is State.TAKING and error is SendError.UNKNOWN_DUPLICATE:
            pass  # it is on its way, or will time out
        else:
            self.leadership.gave_up(f"{error.value}: {why}", now)
        self._gather()

    def gave_up(self, why: str, now: float) -> None:
        """Note that the producer is gone and cannot reconnect with this epoch."""
        self._attached = False
        if self.window is not None:
            self.window.ended(why)
        else:
            self.leadership.gave_up(why, now)
        self._gather()

    def found(self, place: Place, data: bytes, now: float) -> None:
        """Take an entry that was read back."""
        if self.window is not None:
            self.window.found(place, data, now)
        self._gather()

    def found_all(self) -> None:
        """Note that reading back is done."""
        if self.window is not None:
            self.window.found_all()
        self._gather()

    # The engine

    def opened(self) -> None:
        """Note that the engine is open."""
        self.leadership.opened()
        self._gather()

    def commit(self, body: bytes, clock_ms: int, ended: Ended, now: float) -> bool:
        """Store a commit; False if this node no longer leads, and the commit has no effect."""
        if self.window is None or self.window.lost is not None:
            return False
        stamp_ms = self.stamps.now(clock_ms)
        self._sent_at = now
        self.window.commit(body, stamp_ms, self._stored(body, stamp_ms, ended), now)
        self._gather()
        return True

    def resign(self, why: str, successor: str = "") -> None:
        """Let another node lead, ``successor`` if given; :data:`.Act.RESIGN` is carried out once
        clients are gone."""
        self.leadership.resign(why, successor)
        self._gather()

    def write_resignation(self, clock_ms: int, now: float) -> None:
        """Write the resignation, now that no client is served. It is written once every other
        node's lease has certainly ended: its readers wait for no lease, and this leader may have
        begun before the previous leader's had ended."""
        if self.window is None or self.state is not State.RESIGNING:
            return
        self._resigns = now < self.leadership.serve_from
        if self._resigns:
            return
        # It is not applied: a failing directory may be the reason for it.
        stamp_ms, successor = self.stamps.now(clock_ms), self.leadership.successor
        self.window.resign(stamp_ms, lambda *_: self.leadership.resigned(), now, successor)
        self._gather()

    def closed(self, applied: Applied, now: float) -> None:
        """Follow again: engine and producer are closed, and the directory has ``applied``."""
        self.window = None
        self._attached = self._resigns = False
        self._unread.clear()
        self.reader = LogReader(self._shard, applied)
        self.leadership.closed(now)

    def apply_failed(self, why: str, now: float) -> None:
        """Note that the directory could not apply a counting record."""
        self.leadership.failed(why, now)
        self._gather()

    # The members

    def all_read(self, version: int) -> None:
        """Note the entry version that every member reads: this node writes no later one."""
        self._version = max(FIRST_VERSION, min(version, VERSION))
        if self.window is not None:
            self.window.version = self._version

    # Time

    def active(self, is_active: bool) -> None:
        """Take the Failover subscription's verdict whether this node may try."""
        self.leadership.active(is_active)

    def gone(self, now: float) -> None:
        """Note that the last leader is no longer connected to Pulsar."""
        self.leadership.gone(now)
        self._gather()

    def tick(self, now: float, clock_ms: int) -> None:
        """Handle the passing of time."""
        window = self.window
        if window is not None:
            window.tick(now)
            if self._unread and now >= self._unread[0].reported_at + UNREAD_S:
                window.ended(f"what it has stored could not be read for {UNREAD_S} s")
            is_idle = window.is_empty and now >= self._sent_at + HEARTBEAT_S
            if self._beats and (is_idle or now >= self._said_at + HISTORY_S):
                self._sent_at = self._said_at = now
                stamp_ms = self.stamps.now(clock_ms)
                window.heartbeat(stamp_ms, self._stored(b"", stamp_ms, None), now)
        if self._resigns:
            self.write_resignation(clock_ms, now)
        self.leadership.tick(now)
        self._gather()

    def serves(self, now: float) -> bool:
        """Whether it may deliver and answer at this instant; must be asked each time."""
        return self.leadership.serves(now)

    # Inside

    @property
    def _beats(self) -> bool:
        return self.state in (State.OPENING, State.LEADING)

    def _begin(self, now: float) -> None:
        """Begin the window: its TAKE counts, and everything from here on is its own."""
        leader = self.reader.leader
        assert leader is not None, "a TAKE was read just now"
        self.stamps = Stamps(self.reader.stamp_ms)
        self.window = Window(
            leader, self.reader.link, TAKE_SEQUENCE + 1, self._entry_bytes_max, self._version
        )
        if self._attached:
            self.window.attached(now)
        self._sent_at = now - HEARTBEAT_S  # the first heartbeat is due

    def _stored(self, body: bytes, stamp_ms: int, ended: Ended | None) -> Stored:
        assert self.window is not None, "it makes records"
        leader = self.window.leader

        def stored(item: Item, base_place: Place, base: Link, now: float) -> None:
            take, at = leader.take, leader.place
            applied = Applied(
                take.history, item.link, base_place, base, take.epoch, at, stamp_ms, take.node,
                leader.addresses,
            )  # fmt: skip
            apply = Apply(Commit(body, applied), ended)
            self._unread.append(_Unread(item.place, item.sent_at, now, apply))
            self._tell_read()

        return stored

    def _read_own(self, place: Place, data: bytes, window: Window) -> None:
        """Take an entry while this node leads. Pulsar admits a producer with a stale epoch beside
        one with a newer epoch if it reconnects while that one is being recorded: it gets receipts
        after the other's TAKE, and those records do not count."""
        if is_record(data):
            self.reader.pass_by(place)
        elif self.reader.read(place, data)[0] is Verdict.TAKEN:
            leader = self.reader.leader
            assert leader is not None, "a TAKE was read just now"
            window.ended(f"node {leader.take.node} has taken epoch {leader.take.epoch}")
            return
        self._tell_read()

    def _tell_read(self) -> None:
        """Report records that are stored and read along with all before them."""
        window = self.window
        while window is not None and window.lost is None and self._unread:
            if self._unread[0].place > self.reader.place:
                return
            read = self._unread.popleft()
            self.leadership.lease.renewed(read.sent_at)
            self.effects.append(read.apply)

    def _send_take(self) -> None:
        assert self.leadership.take is not None, "it was made when the producer was open"
        self.effects.append(Send(TAKE_SEQUENCE, encode_take(self.leadership.take, self._version)))

    def _gather(self) -> None:
        """Collect the effects of window and leadership."""
        window, leadership = self.window, self.leadership
        if window is not None:
            made, window.effects = window.effects, []
            for effect in made:
                if isinstance(effect, Lost):
                    leadership.lost(effect.why)
                else:
                    self.effects.append(effect)
        acts, leadership.acts = leadership.acts, []
        for act in acts:
            if act is Act.TAKE:
                self._send_take()
            else:
                self.effects.append(act)
