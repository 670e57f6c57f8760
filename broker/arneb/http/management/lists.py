"""Lists: sorted, filtered, cut into pages and columns, as RabbitMQ does.

The rule: what is cheap is done for all, and a document is made of those only that are shown; and
nothing is done for more than a few hundred between two turns of others.
"""

import heapq
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import trio

from arneb.http.management.calls import Document, Refused, bad_request
from arneb.http.management.rates import Range
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import compiled

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
SAMPLES_MAX: Final = 500

NAMES_PER_TURN: Final = 2000
"""Names that are compared in a millisecond or two."""
FIGURES_PER_TURN: Final = 500
"""Figures that are looked up in as long."""
DOCUMENTS_PER_TURN: Final = 50

REST: Final = 50
"""An order that took a second to find out is kept for fifty."""
SHORT_S: Final = 0.02
"""What takes no longer is found out each time."""
ORDERS_MAX: Final = 16
"""Pages that are kept."""

Item = TypeVar("Item")
Pause = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Page:
    """Which of a list are shown."""

    number: int
    size: int = PAGE_SIZE
    name: str = ""
    is_pattern: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """What a query asks of a list."""

    columns: tuple[tuple[str, ...], ...] = ()
    sort: str = ""
    reverse: bool = False
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """Things that are listed."""

    items: Sequence[Item]
    document: Callable[[Item], Document]
    order: Callable[[Item], tuple[str, ...]]
    """By what they stand in order unless something else is asked for; the last part is the name
    that is searched."""
    cheap: Mapping[str, Callable[[Item], Any]] = field(default_factory=dict)
    """Fields by which they can be sorted without a document of each."""
    orders: "Orders | None" = None
    """Where the order of very many is kept for a while; ``stamp`` changes with what there is."""
    stamp: Hashable = None


@dataclass(frozen=True, slots=True)
class _Order:
    """The first of very many, in order."""

    first: Sequence[Any]
    until_s: float


class Orders:
    """Orders that took long to find out, kept for some times as long: a page is asked for again and
    again, and which figures stand on it may be older than the figures themselves."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Order] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Orders, {len(self._kept)} kept>"

    async def first(
        self,
        source: "Source[Item]",
        items: Sequence[Item],
        listing: "Listing",
        pause: Pause,
        end: int,
    ) -> list[Item]:
        """The first ``end`` of ``items``."""
        key = source.stamp, listing.sort, listing.reverse, listing.page
        began = self._clock()
        kept = self._kept.get(key)
        if kept is not None and began < kept.until_s:
            return list(kept.first)
        found = [each async for each in _ordered(source, items, listing, pause, end)]
        took_s = self._clock() - began
        if took_s > SHORT_S:
            self._kept[key] = _Order(found, self._clock() + REST * took_s)
            if len(self._kept) > ORDERS_MAX:
                self._kept.popitem(last=False)
        return found


def listing_of(query: Mapping[str, str], *, paged: bool = True) -> Listing:
    """Raises 400."""
    columns = tuple(tuple(each.split(".")) for each in query.get("columns", "").split(",") if each)
    reverse = query.get("sort_reverse", "false")
    if reverse not in ("true", "false"):
        raise bad_request(f"expected true or false as sort_reverse, got {reverse[:40]!r}")
    page = _page_of(query) if paged and "page" in query else None
    return Listing(columns, query.get("sort", ""), reverse == "true", page)


def _page_of(query: Mapping[str, str]) -> Page:
    number, size = query["page"], query.get("page_size")
    parsed, parsed_size = _whole(number), PAGE_SIZE if size is None else _whole(size)
    if parsed is None or parsed_size is None:
        raise bad_request("Pagination parameters are invalid")
    if parsed < 1 or not 1 <= parsed_size <= PAGE_SIZE_MAX:
        shown = "undefined" if size is None else size[:20]
        reason = f"Invalid pagination parameters: page number {number[:20]}, page size {shown}"
        raise Refused(400, "invalid_pagination_parameters", reason)
    return Page(parsed, parsed_size, query.get("name", ""), query.get("use_regex") == "true")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def range_of(query: Mapping[str, str], kind: str) -> Range | None:
    """The range of samples that a query asks for; ``kind`` is ``lengths``, ``msg_rates``, …
    Raises 400."""
    age, step = query.get(f"{kind}_age"), query.get(f"{kind}_incr")
    if age is None and step is None:
        return None
    age_s, step_s = _whole(age or ""), _whole(step or "")
    if not age_s or not step_s or age_s / step_s > SAMPLES_MAX:
        reason = f"Invalid range parameters: age {age or 'undefined'}, incr {step or 'undefined'}"
        raise bad_request(reason[:200])
    return Range(age_s, step_s)


def ranges_of(query: Mapping[str, str], kinds: Mapping[str, Iterable[str]]) -> Mapping[str, Range]:
    """The ranges that a query asks for, by counter; ``kinds`` has the counters that each kind of
    range is of. Raises 400."""
    found: dict[str, Range] = {}
    for kind, names in kinds.items():
        if (wanted := range_of(query, kind)) is not None:
            found |= dict.fromkeys(names, wanted)
    return found


async def listed(source: Source[Item], listing: Listing, pause: Pause) -> Any:
    """The answer: a list, or an object if a page was asked for. Raises 400."""
    items, total = source.items, len(source.items)
    page = listing.page
    if page is not None and page.name:
        items = await _named(items, source.order, page, pause)
    start, end = 0, len(items)
    if page is not None:
        start = (page.number - 1) * page.size
        end = min(start + page.size, len(items))
        if start > len(items):
            reason = (
                f"Page out of range, page: {page.number} page size: {page.size}, len: {len(items)}"
            )
            raise Refused(400, "page_out_of_range", reason)
    if page is not None and source.orders is not None:
        ordered = await source.orders.first(source, items, listing, pause, end)
    else:
        ordered = [each async for each in _ordered(source, items, listing, pause, end)]
    documents = []
    for item in ordered[start:]:
        documents.append(narrowed(source.document(item), listing.columns))
        if len(documents) % DOCUMENTS_PER_TURN == 0:
            await pause()
    if page is None:
        return documents
    return {
        "total_count": total,
        "item_count": len(documents),
        "filtered_count": len(items),
        "page": page.number,
        "page_size": page.size,
        "page_count": -(-len(items) // page.size),
        "items": documents,
    }


async def _named(
    items: Sequence[Item], order: Callable[[Item], tuple[str, ...]], page: Page, pause: Pause
) -> list[Item]:
    wanted = page.name.casefold()
    matches: Callable[[str], bool] = lambda name: wanted in name.casefold()  # noqa: E731
    if page.is_pattern:
        try:
            matches = compiled(f"(?i){page.name}")
        except InvalidAccess:
            raise bad_request("Pagination parameters are invalid") from None
    found: list[Item] = []
    for begin in range(0, len(items), NAMES_PER_TURN):
        found += [
            each for each in items[begin : begin + NAMES_PER_TURN] if matches(order(each)[-1])
        ]
        await pause()
    return found


async def _ordered(
    source: Source[Item], items: Sequence[Item], listing: Listing, pause: Pause, end: int
) -> AsyncIterator[Item]:
    """The first ``end`` of them, sorted by pieces so that no sort takes long."""
    key = _key_of(source, listing.sort)
    by_document = bool(listing.sort) and listing.sort not in source.cheap
    at_once = FIGURES_PER_TURN if listing.sort else NAMES_PER_TURN
    if by_document:
        at_once = DOCUMENTS_PER_TURN
    pieces: list[list[tuple[Any, int]]] = []
    piece: list[tuple[Any, int]] = []
    for begin in range(0, len(items), at_once):
        chunk = enumerate(items[begin : begin + at_once], begin)
        piece += [(key(each), index) for index, each in chunk]
        if len(piece) >= NAMES_PER_TURN:
            pieces.append(sorted(piece, reverse=listing.reverse))
            piece = []
        await pause()
    pieces.append(sorted(piece, reverse=listing.reverse))
    merged = heapq.merge(*pieces, reverse=listing.reverse)
    for number, (_, index) in enumerate(islice(merged, end), 1):
        yield items[index]
        if number % NAMES_PER_TURN == 0:
            await pause()


def _key_of(source: Source[Item], sort: str) -> Callable[[Item], Any]:
    if not sort:
        return source.order
    read = source.cheap.get(sort)
    if read is None:
        path = sort.split(".")
        return lambda item: (_comparable(_descend(source.document(item), path)), source.order(item))
    cheap = read
    return lambda item: (_comparable(cheap(item)), source.order(item))


def _comparable(value: Any) -> tuple[int, Any]:
    """Erlang's order of values: numbers come before everything else, and what is not there counts
    as 0."""
    if value is None:
        return (0, 0)
    if isinstance(value, bool):
        return (1, str(value).lower())
    if isinstance(value, int | float):
        return (0, value)
    return (2, value if isinstance(value, str) else str(value))


def _descend(document: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def narrowed(document: Document, columns: Sequence[tuple[str, ...]]) -> Document:
    """The columns that were asked for; without any, all."""
    if not columns:
        return document
    found: Document = {}
    for path in columns:
        value = _descend(document, path)
        if value is None and not _has(document, path):
            continue
        into = found
        for name in path[:-1]:
            inner = into.get(name)
            if not isinstance(inner, dict) or inner is _descend(document, path[:-1]):
                inner = {}
            into[name] = inner
            into = inner
        into[path[-1]] = value
    return found


def _has(document: Any, path: Sequence[str]) -> bool:
    parent = _descend(document, path[:-1])
    return isinstance(parent, dict) and path[-1] in parent
