"""The window: a leader's records on their way to the topic, until each has its receipt.

The rule: sent records end as *stored*, in order, or the epoch ends (:class:`Lost`) and nothing more
is reported. A record is stored when a receipt gives its place, or it was read back, and its place
is after the preceding record's: then every reader that has counted the preceding one counts it
there at the latest. On every new connection all records without a place are sent again, verbatim
and in order.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from arneb_cluster.protocol.entries import OVERHEAD_BYTES, VERSION, Kind, encode_record
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Leader, Link, Place

IN_FLIGHT_BYTES_MAX: Final = 16 << 20
"""Bytes sent without a receipt: four full commits. One record alone may be larger."""

RESEND_S: Final = 0.1
"""The wait after a broker could not say yet whether an entry is a duplicate: writing one takes
less."""

METADATA_BYTES: Final = 512
"""Bytes around an entry's payload within Pulsar's limit: names and numbers."""


class ItemState(Enum):
    """The state of a record."""

    HELD = "numbered, and not sent yet"
    SENT = "sent once"
    RESENT = "sent more than once"
    DOUBTED = "Pulsar says that it has it, and not where"
    PLACED = "stored, and it is known where"


MOVES: Final = {
    ItemState.HELD: frozenset({ItemState.SENT}),
    ItemState.SENT: frozenset({ItemState.RESENT, ItemState.PLACED}),
    ItemState.RESENT: frozenset({ItemState.RESENT, ItemState.DOUBTED, ItemState.PLACED}),
    ItemState.DOUBTED: frozenset({ItemState.DOUBTED, ItemState.PLACED}),
    ItemState.PLACED: frozenset[ItemState](),
}


class SendError(Enum):
    """How a broker refuses an entry."""

    UNKNOWN_DUPLICATE = "it cannot tell yet whether it has that already"
    FENCED = "another producer has thrown this one out"
    OTHER = "anything else"


@dataclass(slots=True)
class Item:
    """One record."""

    sequence: int
    data: bytes
    link: Link
    stored: "Stored | None"
    """None: a part, whose commit is reported with its last one."""
    ends_commit: bool
    state: ItemState = ItemState.HELD
    place: Place = NOWHERE
    was_resent: bool = False
    sent_at: float = 0.0
    """When it was first sent: it was stored after that."""

    def becomes(self, state: ItemState) -> None:
        assert state in MOVES[self.state], (self, state)
        self.state = state


Stored = Callable[[Item, Place, Link, float], None]
"""Called with a placed record; a place, and the link up to which records have counted there; and
the time."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write this to the topic."""

    sequence: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read the topic beyond ``after`` up to its current end, into :meth:`Window.found`."""

    after: Place


@dataclass(frozen=True, slots=True)
class Reattach:
    """Drop the producer's connection and reconnect with the same epoch, once: a stale producer that
    reconnected has fenced this one off, and is refused itself. If this one is refused, call
    :meth:`Window.ended`."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The epoch has ended: leadership is lost."""

    why: str


Effect = Send | ReadBack | Reattach | Lost


@dataclass(slots=True)
class Window:
    """The records of one epoch. Effects gather in :attr:`effects`, for the shell to carry out."""

    leader: Leader
    """The TAKE of this epoch."""
    link: Link
    """The last numbered record; at the start the last that counted before the TAKE."""
    next_sequence: int
    """The producer's next sequence id; the TAKE used one, too."""
    entry_bytes_max: int
    """The broker's announced limit."""
    version: int = VERSION
    """The version of entries it makes."""
    effects: list[Effect] = field(default_factory=list)
    lost: Lost | None = None
    last_place: Place = NOWHERE
    """The place of the last record known to be stored, with all before it."""
    stored: int = 0
    """Its number."""
    _base: tuple[Place, Link] = NOWHERE, FOUNDATION
    """Place and link of the last record sent only once, which therefore is in the topic once:
    readers count it there, and the next one after it. Of a record sent twice it is unknown which
    copy counts."""
    _items: deque[Item] = field(default_factory=deque)
    _attached: bool = False
    _in_flight_bytes: int = 0
    _resend_at: float | None = None
    _reading_back: list[Item] | None = None
    """The doubted records for which the topic is being read."""

    def __post_init__(self) -> None:
        self.last_place = self.leader.place
        self._base = self.leader.place, self.link
        self.stored = self.link.number

    def __repr__(self) -> str:
        state = self.lost.why if self.lost else f"{len(self._items)} under way"
        return f"<Window of epoch {self.leader.take.epoch} at {self.link.number}, {state}>"

    @property
    def under_way(self) -> int:
        """Records without a receipt, or waiting for one before them."""
        return len(self._items)

    @property
    def is_empty(self) -> bool:
        """Whether everything is stored."""
        return not self._items

    @property
    def due(self) -> float | None:
        """When :meth:`tick` is needed."""
        return self._resend_at

    # Calls of the leader

    def commit(self, body: bytes, stamp_ms: int, stored: Stored, now: float) -> None:
        """Write a commit, in as many parts as needed."""
        room = self.entry_bytes_max - METADATA_BYTES - OVERHEAD_BYTES
        parts = [body[at : at + room] for at in range(0, len(body), room)]
        for part in parts[:-1]:
            self._add(Kind.PART, stamp_ms, part, None)
        self._add(Kind.CHANGES, stamp_ms, parts[-1], stored)
        self._send_held(now)

    def heartbeat(self, stamp_ms: int, stored: Stored, now: float) -> None:
        """Write a record that shows that the leader is alive, and names its history."""
        self._add(Kind.HEARTBEAT, stamp_ms, self.leader.take.history.encode(), stored)
        self._send_held(now)

    def resign(self, stamp_ms: int, stored: Stored, now: float, successor: str = "") -> None:
        """Write the last record: ``successor`` may take over at once, or any node if empty."""
        self._add(Kind.RESIGNATION, stamp_ms, successor.encode(), stored)
        self._send_held(now)

    # Calls of the producer

    def attached(self, now: float) -> None:
        """Note that the producer is connected with this epoch, for the first time or again."""
        if self.lost is None:
            self._attached = True
            self._resend(now)

    def detached(self) -> None:
        """Note that the connection is gone; records without a receipt may or may not be stored."""
        self._attached = False
        self._resend_at = None

    def receipt(self, sequence: int, place: Place, now: float) -> None:
        """Take a receipt."""
        if self.lost is not None or sequence < self._first_sequence:
            return  # already reported
        index = sequence - self._first_sequence
        item = self._items[index] if index < len(self._items) else None
        if item is None or item.state is ItemState.HELD:
            self._lose(f"expected a receipt of what was sent, got one of {sequence}")
        elif item.state is ItemState.PLACED:
            return  # repeated
        elif place != NOWHERE:
            self._place(item, place)
            self._finish(now)
        elif item.state is ItemState.SENT:
            self._lose(
                f"record {item.link.number} was sent once, and the broker says that it had it "
                "before: somebody else has used the producer's name"
            )
        else:
            item.becomes(ItemState.DOUBTED)
            self._read_back()

    def refused(self, sequence: int, error: SendError, why: str, now: float) -> None:
        """Take a refusal."""
        if self.lost is not None:
            return
        if error is SendError.UNKNOWN_DUPLICATE:
            if self._resend_at is None:
                self._resend_at = now + RESEND_S
        elif error is SendError.FENCED:
            # It was not written, nor was anything sent after it, so no gap results.
            self.detached()
            self.effects.append(Reattach())
        else:
            self._lose(f"record with sequence id {sequence} was refused: {error.value}: {why}")

    def ended(self, why: str) -> None:
        """End the epoch: the producer cannot reconnect."""
        if self.lost is None:
            self._lose(why)

    def found(self, place: Place, data: bytes, now: float) -> None:
        """Take an entry while the topic is read back."""
        if self.lost is not None:
            return
        before = self.last_place
        for item in self._items:
            if item.state is ItemState.PLACED:
                before = item.place
                continue
            if item.data == data and place > before and item.state is not ItemState.HELD:
                self._place(item, place)
                self._finish(now)
            return

    def found_all(self) -> None:
        """Note that the topic was read up to its end as of the request :class:`ReadBack`."""
        looked_for, self._reading_back = self._reading_back, None
        if self.lost is not None:
            return
        missing = [each for each in looked_for or () if each.state is ItemState.DOUBTED]
        if missing:
            self._lose(
                f"Pulsar says that it has record {missing[0].link.number}, and it is not there"
            )
        else:
            self._read_back()

    def tick(self, now: float) -> None:
        """Handle the passing of time."""
        if self._resend_at is not None and now >= self._resend_at:
            self._resend_at = None
            if self._attached and self.lost is None:
                self._resend(now)

    # Inside

    @property
    def _first_sequence(self) -> int:
        return self.next_sequence - len(self._items)

    def _add(self, kind: Kind, stamp_ms: int, body: bytes, stored: Stored | None) -> None:
        take = self.leader.take
        data, self.link = encode_record(
            kind,
            take.epoch,
            self.link,
            self.stored,
            stamp_ms,
            self.leader.place,
            body,
            self.version,
        )
        ends_commit = kind is not Kind.PART
        self._items.append(Item(self.next_sequence, data, self.link, stored, ends_commit))
        self.next_sequence += 1

    def _send_held(self, now: float) -> None:
        if not self._attached or self.lost is not None:
            return
        for item in self._held():
            size = len(item.data)
            if self._in_flight_bytes and self._in_flight_bytes + size > IN_FLIGHT_BYTES_MAX:
                return
            self._in_flight_bytes += size
            item.sent_at = now
            item.becomes(ItemState.SENT)
            self.effects.append(Send(item.sequence, item.data))

    def _held(self) -> Sequence[Item]:
        """Return the records not sent yet, which are the last ones."""
        held: list[Item] = []
        for item in reversed(self._items):
            if item.state is not ItemState.HELD:
                break
            held.append(item)
        return held[::-1]

    def _resend(self, now: float) -> None:
        for item in self._sent():
            item.was_resent = True
            if item.state is not ItemState.DOUBTED:
                item.becomes(ItemState.RESENT)
            self.effects.append(Send(item.sequence, item.data))
        self._send_held(now)

    def _sent(self) -> Iterator[Item]:
        """Yield the records that were sent and have no known place."""
        for item in self._items:
            if item.state is ItemState.HELD:
                return
            if item.state is not ItemState.PLACED:
                yield item

    def _place(self, item: Item, place: Place) -> None:
        item.becomes(ItemState.PLACED)
        item.place = place
        self._in_flight_bytes -= len(item.data)

    def _finish(self, now: float) -> None:
        """Report stored records, in order, and send what there is room for now."""
        while self._items and self._items[0].state is ItemState.PLACED:
            item = self._items.popleft()
            if item.place <= self.last_place:
                self._lose(
                    f"expected record {item.link.number} behind {self.last_place}, where the one "
                    f"before it stands, got {item.place}"
                )
                return
            self.last_place, self.stored = item.place, item.link.number
            if item.ends_commit and not item.was_resent:
                self._base = item.place, item.link
            if item.stored is not None:
                item.stored(item, *self._base, now)
        self._send_held(now)

    def _read_back(self) -> None:
        """Request reading back for doubted records, one reading at a time."""
        if self._reading_back is not None:
            return
        doubted = [each for each in self._items if each.state is ItemState.DOUBTED]
        if doubted:
            self._reading_back = doubted
            self.effects.append(ReadBack(self.last_place))

    def _lose(self, why: str) -> None:
        self.lost = Lost(why)
        self._attached = False
        self._items.clear()
        self.effects.append(self.lost)
