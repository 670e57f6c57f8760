"""Acknowledgements on their way to the broker, gathered into few commands.

The rule: no acknowledgement is lost or covers more than was acknowledged. It waits for at most
``group_s``, or until ``group_max`` entries wait; without a connection it keeps waiting. Unless
batch indexes are acknowledged, a batch is acknowledged with the last of its messages: until then
the broker would redeliver all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from arneb_pulsar.client.ids import EntryId

GROUP_S: Final = 0.1
"""The official clients' default."""

GROUP_MAX: Final = 1_000
"""Entries in one command, as in the official clients."""

OPEN_BATCHES_MAX: Final = 50_000
"""Partly acknowledged batches that are tracked: as many as the entries that a broker lets one
consumer have unacknowledged. Beyond it the oldest is presumed abandoned and forgotten, and would be
redelivered whole."""

NOTHING: Final[EntryId] = (-1, -1)
"""A position before the first entry of any topic."""

Receipt = Callable[[BaseException | None], None]
"""Called with None when the broker has answered, or with the reason why it will not."""


@dataclass(frozen=True, slots=True)
class Acks:
    """What one flush sends, as one group: the receipts are for all of it together."""

    individual: tuple[EntryId, ...] = ()
    """Whole entries, in the order of the log."""
    partial: tuple[tuple[EntryId, int], ...] = ()
    """Batches, each with the bit set of its messages still unacknowledged."""
    cumulative: EntryId | None = None
    cumulative_left: int = 0
    """The bit set of the cumulative entry's messages still unacknowledged; 0 = none."""
    receipts: tuple[Receipt, ...] = ()


class AckTracker(Protocol):
    """The acknowledgements of one consumer, as its machine uses them."""

    def delivered(self, entry: EntryId, left: int, size: int) -> None: ...

    def acknowledge(
        self, entry: EntryId, now: float, index: int = -1, size: int = 0,
        receipt: Receipt | None = None,
    ) -> bool: ...  # fmt: skip

    def acknowledge_part(self, entry: EntryId, index: int) -> bool: ...

    def acknowledge_cumulative(
        self, entry: EntryId, now: float, index: int = -1, size: int = 0,
        receipt: Receipt | None = None,
    ) -> bool: ...  # fmt: skip

    def is_duplicate(self, entry: EntryId, index: int = -1) -> bool: ...

    def flush(self, now: float) -> Acks | None: ...

    def due(self) -> float | None: ...

    def clear(self) -> list[Receipt]: ...

    def disconnected(self) -> None: ...


class AckGroupingTracker:
    """The acknowledgements of one consumer on a persistent topic.

    Invariant: ``_since`` is set while something waits. An entry in ``_batches`` is partly
    acknowledged; it is also in ``_partial`` if the broker is still to be told so.
    """

    def __init__(
        self,
        *,
        group_s: float = GROUP_S,
        group_max: int = GROUP_MAX,
        batch_index_acks: bool = False,
    ) -> None:
        self._group_s = group_s
        self._group_max = group_max
        self._batch_index_acks = batch_index_acks
        self._is_immediate = group_s <= 0
        self._individual: set[EntryId] = set()
        self._partial: set[EntryId] = set()
        self._batches: dict[EntryId, int] = {}
        self._cumulative = NOTHING
        self._cumulative_left = 0
        self._is_cumulative_pending = False
        self._receipts: list[tuple[EntryId, Receipt]] = []
        self._since: float | None = None

    def __repr__(self) -> str:
        cumulative = f", up to {self._cumulative}" if self._is_cumulative_pending else ""
        return (
            f"<AckGroupingTracker {len(self._individual)} entries and"
            f" {len(self._partial)} parts of batches waiting{cumulative}>"
        )

    def delivered(self, entry: EntryId, left: int, size: int) -> None:
        """Note the arrival of a batch of ``size`` messages, perhaps again; ``left`` is the bit set
        of those that the broker counts as unacknowledged. Earlier acknowledgements that the broker
        neither knows nor will be sent are forgotten: the application gets those messages again."""
        if entry in self._partial:
            left &= self._batches[entry]
        self._batches.pop(entry, None)
        if left != (1 << size) - 1:
            self._remember(entry, left)

    def acknowledge(
        self,
        entry: EntryId,
        now: float,
        index: int = -1,
        size: int = 0,
        receipt: Receipt | None = None,
    ) -> bool:
        """Acknowledge one message; ``index`` and ``size`` place it in its batch. Return True to
        flush now.

        Unless batch indexes are acknowledged, the receipt of a message whose batch is not complete
        is called at once: there is nothing to send for it.
        """
        if size:
            left = self._batches.get(entry)
            left = ((1 << size) - 1 if left is None else left) & ~(1 << index)
            if left:
                self._remember(entry, left)
                if not self._batch_index_acks:
                    if receipt is not None:
                        receipt(None)
                    return False
                self._partial.add(entry)
                return self._added(entry, now, receipt)
            self._batches.pop(entry, None)
            self._partial.discard(entry)
        self._individual.add(entry)
        return self._added(entry, now, receipt)

    def acknowledge_part(self, entry: EntryId, index: int) -> bool:
        """Acknowledge a message of a batch that was partly acknowledged before and is not complete
        after, so that the broker need not be told. Return False if nothing was done:
        :meth:`acknowledge` it then.

        Hot path: nearly all messages of batches are acknowledged here; a property test compares it
        with :meth:`acknowledge`."""
        if self._batch_index_acks or (left := self._batches.get(entry)) is None:
            return False
        left &= ~(1 << index)
        if not left:
            return False
        self._batches[entry] = left
        return True

    def acknowledge_cumulative(
        self,
        entry: EntryId,
        now: float,
        index: int = -1,
        size: int = 0,
        receipt: Receipt | None = None,
    ) -> bool:
        """Acknowledge everything up to a message; return True to flush now.

        Inside a batch, unless batch indexes are acknowledged, only the entries before the batch are
        acknowledged, since the rest of the batch is not. Acknowledging again changes nothing.
        """
        left = 0
        if index + 1 < size:
            left = self._batches.get(entry, (1 << size) - 1) & -(1 << (index + 1))
            if left:
                self._remember(entry, left)
                if not self._batch_index_acks:
                    # (ledger, -1), before a ledger's first entry, means the end of the last ledger.
                    entry, left = (entry[0], entry[1] - 1), 0
        is_later = entry > self._cumulative
        if is_later or (entry == self._cumulative and left < self._cumulative_left):
            self._cumulative, self._cumulative_left = entry, left
            self._is_cumulative_pending = True
        elif not self._is_cumulative_pending:
            if receipt is not None:
                receipt(None)
            return False
        return self._added(entry, now, receipt)

    def is_duplicate(self, entry: EntryId, index: int = -1) -> bool:
        """Return whether a delivered entry, or message of a batch, is acknowledged already: the
        broker sent it before it knew."""
        if entry <= self._cumulative:
            if entry < self._cumulative or not self._cumulative_left:
                return True
            if index >= 0 and not self._cumulative_left >> index & 1:
                return True
        if entry in self._individual:
            return True
        return index >= 0 and entry in self._partial and not self._batches[entry] >> index & 1

    def flush(self, now: float) -> Acks | None:
        """Return what to send now, at most ``group_max`` entries; call again until it returns None.
        Not to be called without a connection."""
        if self._since is None:
            return None
        cumulative, cumulative_left = None, 0
        if self._is_cumulative_pending:
            cumulative, cumulative_left = self._cumulative, self._cumulative_left
            self._is_cumulative_pending = False
            self._drop_covered()
        individual = self._first(self._individual, self._group_max)
        parts = self._first(self._partial, self._group_max - len(individual))
        partial = tuple((each, self._batches[each]) for each in parts)
        receipts = self._take_receipts()
        self._since = now if self._individual or self._partial else None
        return Acks(individual, partial, cumulative, cumulative_left, receipts)

    def due(self) -> float | None:
        """Return when the grouping time is up; None if nothing waits."""
        return None if self._since is None else self._since + self._group_s

    def clear(self) -> list[Receipt]:
        """Forget everything, after a seek; return the receipts that will never be answered."""
        receipts = [receipt for _, receipt in self._receipts]
        self._receipts.clear()
        self._individual.clear()
        self._partial.clear()
        self._batches.clear()
        self._cumulative, self._cumulative_left = NOTHING, 0
        self._is_cumulative_pending = False
        self._since = None
        return receipts

    def disconnected(self) -> None:
        """Keep what waits. Entries whose acknowledgements were sent may be redelivered, and are
        then no duplicates: the acknowledgement was lost, or the subscription was moved back."""
        if not self._is_cumulative_pending:
            self._cumulative, self._cumulative_left = NOTHING, 0

    def _added(self, entry: EntryId, now: float, receipt: Receipt | None) -> bool:
        if receipt is not None:
            self._receipts.append((entry, receipt))
        if self._since is None:
            self._since = now
        if self._is_immediate:
            return True
        return len(self._individual) + len(self._partial) >= self._group_max

    def _remember(self, entry: EntryId, left: int) -> None:
        self._batches[entry] = left
        if len(self._batches) > OPEN_BATCHES_MAX:
            oldest = next(iter(self._batches))
            del self._batches[oldest]
            self._partial.discard(oldest)

    def _drop_covered(self) -> None:
        """Drop acknowledgements that the cumulative one covers."""
        whole = self._cumulative
        if self._cumulative_left:
            whole = (whole[0], whole[1] - 1)
        self._individual = {each for each in self._individual if each > whole}
        for entry in [each for each in self._batches if each <= whole]:
            del self._batches[entry]
            self._partial.discard(entry)

    @staticmethod
    def _first(entries: set[EntryId], count: int) -> tuple[EntryId, ...]:
        """Remove and return the first ``count`` entries in the order of the log."""
        taken = sorted(entries)[:count]
        entries.difference_update(taken)
        return tuple(taken)

    def _take_receipts(self) -> tuple[Receipt, ...]:
        """Remove and return the receipts of everything that no longer waits."""
        if not self._receipts:
            return ()
        taken: list[Receipt] = []
        left: list[tuple[EntryId, Receipt]] = []
        for entry, receipt in self._receipts:
            if entry in self._individual or entry in self._partial:
                left.append((entry, receipt))
            else:
                taken.append(receipt)
        self._receipts = left
        return tuple(taken)


class NonPersistentAcks:
    """The acknowledgements of one consumer on a non-persistent topic. None are sent, since the
    broker keeps no messages; receipts are called at once."""

    def __repr__(self) -> str:
        return "<NonPersistentAcks>"

    def delivered(self, entry: EntryId, left: int, size: int) -> None: ...

    def acknowledge(
        self,
        entry: EntryId,
        now: float,
        index: int = -1,
        size: int = 0,
        receipt: Receipt | None = None,
    ) -> bool:
        if receipt is not None:
            receipt(None)
        return False

    acknowledge_cumulative = acknowledge

    def acknowledge_part(self, entry: EntryId, index: int) -> bool:
        return False

    def is_duplicate(self, entry: EntryId, index: int = -1) -> bool:
        return False

    def flush(self, now: float) -> Acks | None:
        return None

    def due(self) -> float | None:
        return None

    def clear(self) -> list[Receipt]:
        return []

    def disconnected(self) -> None: ...
