"""Entries that are chunks of unacknowledged messages, for cumulative acknowledgements.

The rule: a chunked message has the position of its last chunk. A cumulative acknowledgement up to a
message must leave out the chunks before it of messages that end after it; otherwise such a message
would be redelivered without its beginning, and never be complete. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from arneb_pulsar.client.ids import EntryId


@dataclass(frozen=True, slots=True)
class Passing:
    """How to acknowledge everything up to an entry except some chunks."""

    up_to: EntryId
    """The entry before the first such chunk, to acknowledge cumulatively; ``(ledger, -1)`` if the
    chunk is the first of its ledger."""
    single: Sequence[EntryId]
    """The entries after that to acknowledge singly, in the order of the log, without the last."""


class UnackedChunks:
    """The chunks that one consumer received of messages it has not acknowledged.

    Invariant: ``_chunks`` is in the order of the log; ``_entries`` has, for each ledger, the last
    entry received since the first of those chunks.
    """

    def __init__(self) -> None:
        self._chunks: dict[EntryId, EntryId | None] = {}
        """Each chunk with the last one of its message; None = that has not come."""
        self._entries: dict[int, int] = {}
        self._passed: EntryId | None = None
        """Everything up to here except chunks is acknowledged."""

    def __repr__(self) -> str:
        return f"<UnackedChunks {len(self._chunks)} chunks, passed {self._passed}>"

    def __bool__(self) -> bool:
        """Return whether there are chunks; :meth:`came` must then be called for every entry."""
        return bool(self._chunks)

    def came(self, entry: EntryId, *, is_chunk: bool) -> None:
        """Note the arrival of an entry, perhaps again."""
        chunks = self._chunks
        if is_chunk and entry not in chunks:
            is_next = not chunks or entry > next(reversed(chunks))
            chunks[entry] = None
            if not is_next:
                self._chunks = dict(sorted(chunks.items()))
        ledger, number = entry
        self._entries[ledger] = max(number, self._entries.get(ledger, -1))

    def whole(self, entries: Sequence[EntryId]) -> None:
        """Note that a message is complete; ``entries`` are its chunks."""
        for each in entries:
            if each in self._chunks:
                self._chunks[each] = entries[-1]

    def done(self, entries: Iterable[EntryId]) -> None:
        """Forget chunks that are acknowledged."""
        for each in entries:
            self._chunks.pop(each, None)
        self._tidy()

    def passing(self, last: EntryId, own: Sequence[EntryId] = ()) -> Passing | None:
        """Return how to acknowledge everything up to the message at ``last``, with its ``own``
        chunks; None = by one cumulative acknowledgement."""
        before = list(takewhile(last.__gt__, self._chunks))
        kept = [each for each in before if self._stays(each, last) and each not in own]
        if not kept:
            return None
        first = kept[0]
        since = first if self._passed is None else max(first, self._passed)
        single = {*before, *own, *self._between(since, last)}.difference(kept)
        wanted = sorted([each for each in single if first < each < last])
        return Passing((first[0], first[1] - 1), wanted)

    def passed(self, last: EntryId) -> None:
        """Note that everything up to the message at ``last`` is acknowledged as :meth:`passing`
        said."""
        before = list(takewhile(last.__ge__, self._chunks))
        self._passed = last if self._passed is None else max(last, self._passed)
        self.done([each for each in before if not self._stays(each, last)])

    def disconnected(self) -> None:
        """Keep the known chunks, but expect acknowledged entries to be redelivered."""
        self._passed = None

    def clear(self) -> None:
        """Forget everything, after a seek."""
        self._chunks.clear()
        self._tidy()

    def _stays(self, chunk: EntryId, last: EntryId) -> bool:
        end = self._chunks[chunk]
        return end is None or end > last

    def _between(self, first: EntryId, last: EntryId) -> Iterator[EntryId]:
        """Yield the received entries between two, without those."""
        for ledger, number in self._entries.items():
            if first[0] <= ledger <= last[0]:
                begin = first[1] + 1 if ledger == first[0] else 0
                end = min(number + 1, last[1]) if ledger == last[0] else number + 1
                yield from ((ledger, each) for each in range(begin, end))

    def _tidy(self) -> None:
        if not self._chunks:
            self._entries.clear()
            self._passed = None
