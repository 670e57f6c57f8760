"""Ages: the age of the oldest unacknowledged message.

The rule: the time is read from the message itself, and again only when another one is the oldest.
Of very many queues only those are read that could be among the oldest, by the age of the message's
ledger. A message that was moved there keeps its time and may be older; it counts as old as its
ledger until it has been read once, as all messages on a page have been.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any, Final, Protocol, TypeVar

from arneb_core.api.entries.entry import HEADER_BYTES, read_header
from arneb_core.api.entries.position import Position, ledger_of
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic

KNOWN_MAX: Final = 60_000
"""Oldest messages remembered, 200 bytes each: one for each queue, up to the number that the page is
made for."""

READS_MAX: Final = 2000
"""Messages read for one order: some tenths of a second. Beyond it the ledgers' ages stand in for
the messages'; the next request, a second later, continues from there."""

LOOKED_AT_PER_TURN: Final = 500


class Aged(Protocol):
    """An object to sort: a log, and the subscription whose oldest message counts."""

    @property
    def topic(self) -> Topic: ...

    @property
    def main(self) -> Subscription | None: ...


Row = TypeVar("Row", bound=Aged)


class Ages:
    """Publish times of the oldest messages that were looked at."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, str], tuple[Position, int]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Ages of {len(self._known)} subscriptions>"

    async def of(self, topic: Topic, subscription: Subscription) -> int | None:
        """Return when the oldest unacknowledged message of a subscription was published, in ms;
        None if there is none, or it cannot be read."""
        waiting = subscription.unacknowledged(1)
        return await self._read(topic, subscription, waiting[0]) if waiting else None

    async def oldest_first(
        self, rows: Sequence[Row], end: int, pause: Callable[[], Awaitable[None]], *, reverse: bool
    ) -> list[Row]:
        """Return the first ``end`` of ``rows`` by oldest message, rows without messages last; with
        ``reverse``, in reverse order."""
        sign = -1 if reverse else 1
        heap: list[tuple[float, int, bool, Row]] = []
        empty: list[Row] = []
        for number, row in enumerate(rows):
            if number % LOOKED_AT_PER_TURN == 0:
                await pause()
            bound = self._bound(row, newest=reverse)
            if bound is None:
                empty.append(row)
            else:
                heap.append((sign * bound[0], number, bound[1], row))
        heapify(heap)
        found: list[Row] = empty[:end] if reverse else []
        reads = 0
        while heap and len(found) < end:
            ms, number, is_exact, row = heap[0]
            if is_exact or reads >= READS_MAX:
                heappop(heap)
                found.append(row)
                continue
            reads += 1
            main = row.main
            exact_ms = None if main is None else await self.of(row.topic, main)
            # A message that cannot be read keeps its ledger's age.
            ms = ms if exact_ms is None else sign * exact_ms
            heapreplace(heap, (ms, number, True, row))
        return found if reverse else [*found, *empty][:end]

    def _bound(self, row: Aged, *, newest: bool) -> tuple[float, bool] | None:
        """Return when the row's oldest message was published and True, if known; else a bound from
        its ledger (the latest time if ``newest``, else the earliest) and False. None: there is
        none."""
        main = row.main
        waiting = () if main is None or not sum(main.lengths) else main.unacknowledged(1)
        if main is None or not waiting:
            return None
        known = self._known.get((row.topic.name, row.topic.id, main.name))
        if known is not None and known[0] == waiting[0]:
            return known[1], True
        number = ledger_of(waiting[0])
        for each in row.topic.ledgers():
            if each.id == number:
                if not newest:
                    return each.created_ms, False
                return each.closed_ms or float("inf"), False
        return (float("inf") if newest else 0.0), False

    async def _read(
        self, topic: Topic, subscription: Subscription, position: Position
    ) -> int | None:
        key: Any = (topic.name, topic.id, subscription.name)
        known = self._known.get(key)
        if known is None or known[0] != position:
            try:
                entry = await topic.entry_at(position)
            except StoreFailed:
                return None
            if entry is None or len(entry) < HEADER_BYTES:
                return None
            known = self._known[key] = (position, read_header(entry).publish_time_ms)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known[1]
