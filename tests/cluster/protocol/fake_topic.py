"""A log topic in memory that has all of Pulsar's bad manners.

The rule: nothing happens by itself. What was sent arrives, is written, fails, is answered, is lost
or is answered again only when the driver of the topic says so. It then does what Apache Pulsar was
observed to do (``docs/internals/cluster.md``).
"""

from collections import deque
from dataclasses import dataclass, field

from arneb_cluster.protocol.values import NOWHERE, Place
from arneb_cluster.protocol.window import SendError


@dataclass(frozen=True, slots=True)
class Receipt:
    sequence: int
    place: Place


@dataclass(frozen=True, slots=True)
class Refusal:
    sequence: int
    error: SendError


Answer = Receipt | Refusal


@dataclass(eq=False, slots=True)
class Connection:
    """The connection of one producer."""

    name: str
    epoch: int
    arriving: deque[tuple[int, bytes]] = field(default_factory=deque)
    answers: deque[Answer] = field(default_factory=deque)
    is_open: bool = True
    is_fenced: bool = False
    """Another producer has the topic; this one learns so by its next write."""

    def send(self, sequence: int, data: bytes) -> None:
        if self.is_open:
            self.arriving.append((sequence, data))


@dataclass(slots=True)
class FakeTopic:
    """The topic, and its broker."""

    entries: list[tuple[Place, bytes]] = field(default_factory=list)
    trimmed: int = 0
    """How many of them are gone."""
    is_held: bool = True
    """There is a durable subscription; without one, closed ledgers are deleted."""
    acknowledged: Place = NOWHERE
    """Everything up to here was acknowledged by the subscription."""
    epoch: int = -1
    present: Connection | None = None
    """The producer that has the topic."""
    connections: list[Connection] = field(default_factory=list)
    lets_in_beside: bool = False
    """The next producer that reconnects with the epoch before the newest is admitted beside the one
    that has the newest. It arrived while the newest epoch was being recorded (seen in 1 of 1,000
    races, two brokers)."""
    _pending: deque[tuple[Connection, int, bytes]] = field(default_factory=deque)
    _pushed: dict[str, int] = field(default_factory=dict)
    _persisted: dict[str, int] = field(default_factory=dict)
    _ledger: int = 1
    _next_entry: int = 0

    @property
    def last(self) -> Place:
        return self.entries[-1][0] if self.entries else NOWHERE

    def behind(self, place: Place) -> list[tuple[Place, bytes]]:
        """The remaining entries behind ``place``."""
        return [each for each in self.entries[self.trimmed :] if each[0] > place]

    # Producers

    def fence(self, shard: str) -> Connection:
        """ExclusiveWithFencing: a new epoch; the producer that had the topic is expelled."""
        self.epoch += 1
        return self._attach(f"{shard}/{self.epoch}", self.epoch)

    def come_back(self, name: str, epoch: int) -> Connection | None:
        """With an epoch of its own: the present producer is expelled first, and only then is the
        epoch checked."""
        if self.lets_in_beside and epoch == self.epoch - 1:
            self.lets_in_beside = False
            self.epoch = epoch  # in the broker's memory, until another fences
            beside = Connection(name, epoch)
            self.connections.append(beside)
            return beside
        if self.present is not None:
            self.present.is_fenced = True
            self.present = None
        return self._attach(name, epoch) if epoch >= self.epoch else None

    def _attach(self, name: str, epoch: int) -> Connection:
        if self.present is not None:
            self.present.is_fenced = True
        self.present = Connection(name, epoch)
        self.connections.append(self.present)
        return self.present

    def cut(self, connection: Connection, arrived: int = 0) -> None:
        """The connection ends; so many of the entries on their way still arrive."""
        for _ in range(min(arrived, len(connection.arriving))):
            self.arrive(connection)
        connection.is_open = False
        connection.arriving.clear()
        connection.answers.clear()
        self.connections.remove(connection)
        if self.present is connection:
            self.present = None

    # What happens in the broker

    def arrive(self, connection: Connection) -> None:
        sequence, data = connection.arriving.popleft()
        name = connection.name
        if connection.is_fenced:
            connection.answers.append(Refusal(sequence, SendError.FENCED))
        elif sequence <= self._persisted.get(name, -1):
            connection.answers.append(Receipt(sequence, NOWHERE))
        elif sequence <= self._pushed.get(name, -1):
            connection.answers.append(Refusal(sequence, SendError.UNKNOWN_DUPLICATE))
        else:
            self._pushed[name] = sequence
            self._pending.append((connection, sequence, data))

    @property
    def is_writing(self) -> bool:
        return bool(self._pending)

    def persist(self) -> None:
        """The oldest write is done."""
        connection, sequence, data = self._pending.popleft()
        place = Place(self._ledger, self._next_entry)
        self._next_entry += 1
        self.entries.append((place, data))
        name = connection.name
        self._persisted[name] = max(self._persisted.get(name, -1), sequence)
        connection.answers.append(Receipt(sequence, place))

    def fail(self) -> None:
        """The oldest write fails; those behind it are tried all the same."""
        connection, sequence, _ = self._pending.popleft()
        connection.answers.append(Refusal(sequence, SendError.OTHER))
        self._pushed = dict(self._persisted)

    def roll(self) -> None:
        """Begin a new ledger; older ledgers that nobody needs are deleted as a whole."""
        self._ledger += 1
        self._next_entry = 0
        self._trim()

    def restart(self, written: int) -> None:
        """The broker dies; so many of the writes in progress were completed."""
        for _ in range(min(written, len(self._pending))):
            self.persist()
        self._pending.clear()
        for each in list(self.connections):
            self.cut(each)
        self._pushed = dict(self._persisted)
        self.roll()

    def forget(self) -> None:
        """Deduplication forgets producers that are not writing."""
        if not self._pending:
            self._pushed, self._persisted = {}, {}

    def acknowledge(self, place: Place) -> None:
        """The durable subscription needs nothing up to there."""
        assert place <= self.last, f"expected a place up to {self.last}, got {place}"
        self.acknowledged = max(self.acknowledged, place)
        self._trim()

    def _trim(self) -> None:
        while self.trimmed < len(self.entries):
            ledger = self.entries[self.trimmed][0].ledger
            last = max(each for each, _ in self.entries if each.ledger == ledger)
            if ledger >= self._ledger or (self.is_held and last > self.acknowledged):
                return
            self.trimmed += sum(1 for each, _ in self.entries if each.ledger == ledger)
