"""Assembling large messages from their chunks.

The rule: a message is delivered complete or not at all. Its chunks come in order, since brokers
keep a producer's order; one that comes out of turn means that the chunks held will never be
complete. At most ``pending_max`` messages are being assembled, and none for longer than
``expire_s`` since its first chunk first came, however often it is redelivered: a producer that died
in the middle costs bounded memory and a bounded number of deliveries.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX

PENDING_MAX: Final = 10
"""The official clients' default."""

EXPIRE_S: Final = 60.0
"""The official clients' default."""

NOTED_MAX: Final = 10_000
"""Entries whose first arrival is remembered, under 2 MB. Beyond it, new ones are not remembered
until old ones are long expired."""


class Reason(Enum):
    """Why the chunks of a message are given up."""

    EXPIRED = "its other chunks have not come in time"
    OLDEST = "too many others were begun"
    OUT_OF_TURN = "a chunk is missing"
    REPEATED = "its producer has sent it again"
    DAMAGED = "its chunks do not fit together"


@dataclass(frozen=True, slots=True)
class Assembled:
    """A complete message, and its entries, first to last."""

    payload: bytes
    entries: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Discarded:
    """Entries that were given up: they will not be assembled."""

    entries: tuple[EntryId, ...]
    reason: Reason

    @property
    def is_final(self) -> bool:
        """Whether redelivery would not help, so that they must be acknowledged; expired ones too,
        as in Java's client (``ConsumerImpl.removeExpireIncompleteChunkedMessages``)."""
        return self.reason in (Reason.EXPIRED, Reason.REPEATED, Reason.DAMAGED)


@dataclass(slots=True)
class _Pending:
    """A message being assembled: ``entries`` and ``chunks`` hold the chunks so far."""

    count: int
    total_bytes: int
    begun: float
    entries: list[EntryId] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def __repr__(self) -> str:
        return f"<_Pending {len(self.chunks)} of {self.count} chunks, {self.size_bytes} bytes>"


class ChunkAssembler:
    """The incomplete messages of one consumer.

    Invariant: ``_pending`` is in the order in which messages were begun; ``_noted`` has the time of
    first arrival of entries that began a message or came out of turn, oldest first.
    """

    def __init__(
        self,
        *,
        pending_max: int = PENDING_MAX,
        expire_s: float = EXPIRE_S,
        message_bytes_max: int = UNCOMPRESSED_BYTES_MAX,
    ) -> None:
        if pending_max < 1 or expire_s <= 0:
            raise ConfigurationError(
                f"expected room and time for chunks, got {pending_max} messages and {expire_s} s"
            )
        self._pending_max = pending_max
        self._expire_s = expire_s
        self._message_bytes_max = message_bytes_max
        self._pending: dict[str, _Pending] = {}
        self._noted: dict[EntryId, float] = {}
        self._discarded: list[Discarded] = []

    def __repr__(self) -> str:
        return f"<ChunkAssembler {len(self._pending)} of {self._pending_max} pending>"

    def __len__(self) -> int:
        return len(self._pending)

    def add(
        self,
        uuid: str,
        index: int,
        count: int,
        total_bytes: int,
        entry: EntryId,
        payload: bytes,
        now: float,
    ) -> Assembled | None:
        """Add chunk ``index`` of ``count``, which came in ``entry``. Return the message if it is
        complete; None if chunks are missing or it was given up: see :meth:`take_discarded`."""
        pending = self._pending.get(uuid)
        if not 0 <= index < count or not 0 <= total_bytes <= self._message_bytes_max:
            self._give_up(uuid, Reason.DAMAGED, [entry])
            return None
        if index == 0:
            pending = self._begin(uuid, count, total_bytes, entry, now)
        elif pending is None:
            self._out_of_turn(uuid, entry, now)
            return None
        elif index < len(pending.entries):
            if pending.entries[index] != entry:
                self._discard([entry], Reason.REPEATED)
            return None
        elif index > len(pending.entries):
            self._out_of_turn(uuid, entry, now)
            return None
        pending.size_bytes += len(payload)
        if pending.size_bytes > pending.total_bytes or count != pending.count:
            self._give_up(uuid, Reason.DAMAGED, [entry])
            return None
        pending.entries.append(entry)
        pending.chunks.append(payload)
        if index + 1 < count:
            return None
        if pending.size_bytes != pending.total_bytes:
            self._give_up(uuid, Reason.DAMAGED)
            return None
        del self._pending[uuid]
        self._forget(pending.entries)
        return Assembled(b"".join(pending.chunks), tuple(pending.entries))

    def take_discarded(self) -> list[Discarded]:
        """Return what was given up since the last call, to be acknowledged or redelivered."""
        taken, self._discarded = self._discarded, []
        return taken

    def due(self) -> float | None:
        """Return when :meth:`expire` next has work."""
        if not self._pending:
            return None
        return min([each.begun for each in self._pending.values()]) + self._expire_s

    def expire(self, now: float) -> None:
        """Give up messages begun too long ago."""
        late = [uuid for uuid, each in self._pending.items() if self._is_late(each.begun, now)]
        for uuid in late:
            self._give_up(uuid, Reason.EXPIRED)

    def begin_again(self) -> None:
        """Drop all chunks, which will be redelivered; their expiry stays as it was."""
        self._pending.clear()
        self._discarded.clear()

    def clear(self) -> None:
        """Forget everything, expiry included: after a lost connection the producers may have been
        cut off too, so messages get their full time again."""
        self.begin_again()
        self._noted.clear()

    def _begin(
        self, uuid: str, count: int, total_bytes: int, entry: EntryId, now: float
    ) -> _Pending:
        before = self._pending.pop(uuid, None)
        if before is not None and before.entries[0] != entry:
            # The producer reconnected without a receipt, and resends from the first chunk.
            self._discard(before.entries, Reason.REPEATED)
        if len(self._pending) >= self._pending_max:
            oldest = next(iter(self._pending))
            is_late = self._is_late(self._pending[oldest].begun, now)
            self._give_up(oldest, Reason.EXPIRED if is_late else Reason.OLDEST)
        pending = self._pending[uuid] = _Pending(count, total_bytes, self._since(entry, now))
        return pending

    def _out_of_turn(self, uuid: str, entry: EntryId, now: float) -> None:
        """Give up a message after a chunk that does not follow the held ones: redelivery may bring
        the missing ones. If it does not within ``expire_s``, the message is lost."""
        is_late = self._is_late(self._since(entry, now), now)
        self._give_up(uuid, Reason.EXPIRED if is_late else Reason.OUT_OF_TURN, [entry])

    def _since(self, entry: EntryId, now: float) -> float:
        """Return when ``entry`` first came."""
        noted = self._noted
        if entry not in noted and len(noted) >= NOTED_MAX:
            first = next(iter(noted))
            if not self._is_late(noted[first] + self._expire_s, now):
                return now
            del noted[first]  # it went to another consumer
        return noted.setdefault(entry, now)

    def _is_late(self, since: float, now: float) -> bool:
        return now >= since + self._expire_s

    def _forget(self, entries: Iterable[EntryId]) -> None:
        for each in entries:
            self._noted.pop(each, None)

    def _give_up(self, uuid: str, reason: Reason, more: Iterable[EntryId] = ()) -> None:
        pending = self._pending.pop(uuid, None)
        self._discard([*(pending.entries if pending else ()), *more], reason)

    def _discard(self, entries: Iterable[EntryId], reason: Reason) -> None:
        discarded = Discarded(tuple(entries), reason)
        if discarded.is_final:
            self._forget(discarded.entries)
        self._discarded.append(discarded)
