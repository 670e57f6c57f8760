"""Which entries are pieces of messages that are not done with, for those who acknowledge everything
up to a message.

The rule: a message stands where its last piece does, since there it becomes one. Whoever
acknowledges everything up to it is not done with the messages behind it, some of whose pieces may
stand before: those are left out, or a message would come again without its beginning, and never be
whole. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from arneb_pulsar.client.ids import EntryId


@dataclass(frozen=True, slots=True)
class Passing:
    """How to acknowledge everything up to an entry where pieces are to be left out."""

    up_to: EntryId
    """The entry before the first such piece; ``(ledger, -1)`` before a ledger's first."""
    single: Sequence[EntryId]
    """Those between, one by one, in the order of the log; not the last."""


class PieceTracker:
    """The pieces that one consumer was sent, of messages that it has not acknowledged.

    Invariant: ``_pieces`` is in the order of the log; ``_entries`` has the last entry of each
    ledger that came since the first of them did.
    """

    def __init__(self) -> None:
        self._pieces: dict[EntryId, EntryId | None] = {}
        """Each with the last of its message; None = that has not come."""
        self._entries: dict[int, int] = {}
        self._passed: EntryId | None = None
        """Up to here all that is no piece is acknowledged."""

    def __repr__(self) -> str:
        return f"<PieceTracker {len(self._pieces)} pieces, passed {self._passed}>"

    def __bool__(self) -> bool:
        """There are pieces, and it wants to know what else comes."""
        return bool(self._pieces)

    def came(self, entry: EntryId, *, is_piece: bool) -> None:
        """An entry came, maybe again."""
        pieces = self._pieces
        if is_piece and entry not in pieces:
            is_next = not pieces or entry > next(reversed(pieces))
            pieces[entry] = None
            if not is_next:
                self._pieces = dict(sorted(pieces.items()))
        ledger, number = entry
        self._entries[ledger] = max(number, self._entries.get(ledger, -1))

    def whole(self, entries: Sequence[EntryId]) -> None:
        """A message has all its pieces, which are ``entries``."""
        for each in entries:
            if each in self._pieces:
                self._pieces[each] = entries[-1]

    def done(self, entries: Iterable[EntryId]) -> None:
        """Pieces that are acknowledged."""
        for each in entries:
            self._pieces.pop(each, None)
        self._tidy()

    def passing(self, last: EntryId, own: Sequence[EntryId] = ()) -> Passing | None:
        """How to acknowledge everything up to the message at ``last``, with its ``own`` pieces;
        None = at once."""
        before = list(takewhile(last.__gt__, self._pieces))
        kept = [each for each in before if self._stays(each, last) and each not in own]
        if not kept:
            return None
        first = kept[0]
        since = first if self._passed is None else max(first, self._passed)
        single = {*before, *own, *self._between(since, last)}.difference(kept)
        wanted = sorted([each for each in single if first < each < last])
        return Passing((first[0], first[1] - 1), wanted)

    def passed(self, last: EntryId) -> None:
        """Everything up to the message at ``last`` is acknowledged, as :meth:`passing` says."""
        before = list(takewhile(last.__ge__, self._pieces))
        self._passed = last if self._passed is None else max(last, self._passed)
        self.done([each for each in before if not self._stays(each, last)])

    def disconnected(self) -> None:
        """What is unacknowledged comes again, and what was acknowledged may; which entries are
        pieces is still known."""
        self._passed = None

    def clear(self) -> None:
        """The subscription stands elsewhere."""
        self._pieces.clear()
        self._tidy()

    def _stays(self, piece: EntryId, last: EntryId) -> bool:
        end = self._pieces[piece]
        return end is None or end > last

    def _between(self, first: EntryId, last: EntryId) -> Iterator[EntryId]:
        """The entries between two, without them."""
        for ledger, number in self._entries.items():
            if first[0] <= ledger <= last[0]:
                begin = first[1] + 1 if ledger == first[0] else 0
                end = min(number + 1, last[1]) if ledger == last[0] else number + 1
                yield from ((ledger, each) for each in range(begin, end))

    def _tidy(self) -> None:
        if not self._pieces:
            self._entries.clear()
            self._passed = None
