"""Large messages in chunks, put together again.

The rule: a message is complete or it is nothing. Its chunks come in order, since brokers keep the
order of a producer; one that comes out of turn means that what is here will never be complete. At
most ``pending_max`` messages are under way at once and none for longer than ``expire_s``, so that
producers who died in the middle cost a bounded amount of memory.
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


class Reason(Enum):
    """Why the chunks of a message are given up."""

    EXPIRED = "its other chunks have not come in time"
    OLDEST = "too many others were begun"
    OUT_OF_TURN = "a chunk is missing"
    REPEATED = "its producer has sent it again"
    DAMAGED = "its chunks do not fit together"


@dataclass(frozen=True, slots=True)
class Assembled:
    """A whole message, and the entries that it stood in, first to last."""

    payload: bytes
    entries: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Discarded:
    """Entries that will not make a message here."""

    entries: tuple[EntryId, ...]
    reason: Reason

    @property
    def is_final(self) -> bool:
        """Redelivery would not help: they are to be acknowledged, expired ones too, as by Java's
        client (``ConsumerImpl.removeExpireIncompleteChunkedMessages``)."""
        return self.reason in (Reason.EXPIRED, Reason.REPEATED, Reason.DAMAGED)


@dataclass(slots=True)
class _Pending:
    """A message under way: ``entries`` and ``pieces`` are as long as it has come."""

    count: int
    total_bytes: int
    begun: float
    entries: list[EntryId] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def __repr__(self) -> str:
        return f"<_Pending {len(self.pieces)} of {self.count} chunks, {self.size_bytes} bytes>"


class ChunkAssembler:
    """The messages of one consumer of which some chunks are there.

    Invariant: ``_pending`` is in the order in which messages were begun; ``_orphans`` says since
    when chunks come of a message whose beginning is not here.
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
        self._orphans: dict[str, float] = {}
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
        """Chunk ``index`` of ``count`` has come in ``entry``. The message if that was the last;
        None while others are missing, or if it is none: ask :meth:`take_discarded`."""
        pending = self._pending.get(uuid)
        if not 0 <= index < count or not 0 <= total_bytes <= self._message_bytes_max:
            self._give_up(uuid, Reason.DAMAGED, [entry])
            return None
        if index == 0:
            pending = self._begin(uuid, count, total_bytes, entry, now)
        elif pending is None:
            self._orphan(uuid, entry, now)
            return None
        elif index < len(pending.entries):
            if pending.entries[index] != entry:
                self._discard([entry], Reason.REPEATED)
            return None
        elif index > len(pending.entries):
            self._give_up(uuid, Reason.OUT_OF_TURN, [entry])
            return None
        pending.size_bytes += len(payload)
        if pending.size_bytes > pending.total_bytes or count != pending.count:
            self._give_up(uuid, Reason.DAMAGED, [entry])
            return None
        pending.entries.append(entry)
        pending.pieces.append(payload)
        if index + 1 < count:
            return None
        if pending.size_bytes != pending.total_bytes:
            self._give_up(uuid, Reason.DAMAGED)
            return None
        del self._pending[uuid]
        return Assembled(b"".join(pending.pieces), tuple(pending.entries))

    def take_discarded(self) -> list[Discarded]:
        """What was given up since the last time: to be acknowledged or redelivered."""
        taken, self._discarded = self._discarded, []
        return taken

    def due(self) -> float | None:
        """When :meth:`expire` gives the oldest message up."""
        for pending in self._pending.values():
            return pending.begun + self._expire_s
        return None

    def expire(self, now: float) -> None:
        """Give up what was begun too long ago."""
        while (due := self.due()) is not None and due <= now:
            self._give_up(next(iter(self._pending)), Reason.EXPIRED)

    def clear(self) -> None:
        """Forget everything: it comes again by itself, or nothing is wanted any more."""
        self._pending.clear()
        self._orphans.clear()
        self._discarded.clear()

    def _begin(
        self, uuid: str, count: int, total_bytes: int, entry: EntryId, now: float
    ) -> _Pending:
        self._orphans.pop(uuid, None)
        before = self._pending.pop(uuid, None)
        if before is not None and before.entries[0] != entry:
            # Its producer came back without a receipt, and sends it from the beginning.
            self._discard(before.entries, Reason.REPEATED)
        if len(self._pending) >= self._pending_max:
            self._give_up(next(iter(self._pending)), Reason.OLDEST)
        pending = self._pending[uuid] = _Pending(count, total_bytes, now)
        return pending

    def _orphan(self, uuid: str, entry: EntryId, now: float) -> None:
        """A chunk whose message was not begun here: redelivery may bring the beginning. If that
        does not help for the time that a message has, the beginning is gone."""
        since = self._orphans.setdefault(uuid, now)
        if now - since >= self._expire_s:
            self._discard([entry], Reason.EXPIRED)
            return
        self._discard([entry], Reason.OUT_OF_TURN)
        if len(self._orphans) > self._pending_max:
            del self._orphans[next(iter(self._orphans))]

    def _give_up(self, uuid: str, reason: Reason, more: Iterable[EntryId] = ()) -> None:
        pending = self._pending.pop(uuid, None)
        self._discard([*(pending.entries if pending else ()), *more], reason)

    def _discard(self, entries: Iterable[EntryId], reason: Reason) -> None:
        self._discarded.append(Discarded(tuple(entries), reason))
