"""Lists: sorted, filtered, and cut to a page and columns, as in RabbitMQ.

The rule: cheap work is done for all items, documents are made only for those that are shown, and a
turn handles a bounded number of items.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from arneb.http.management.figures.freshness import Pause
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.ordering import (
    DOCUMENTS_PER_TURN,
    FIGURES_PER_TURN,
    SPARE,
    Figure,
    Orders,
    comparable,
    in_order,
)
from arneb.http.management.requests.calls import Document, Refused, Written, bad_request
from arneb.http.server.long_answers import LONG_ITEMS, LOOKED_AT_MAX, long_answer
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import compiled_for_many

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
SAMPLES_MAX: Final = 500

PATTERNS_PER_TURN: Final = 100
"""Names matched in one turn. RE2 takes hardly any time; a backtracking match is abandoned after
half a millisecond."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that is shown."""

    number: int
    size: int = PAGE_SIZE
    name: str = ""
    is_pattern: bool = False


Columns = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Listing:
    """The list options in a query."""

    columns: Columns | None = None
    """The paths of the requested fields; None: all."""
    sort: str = ""
    reverse: bool = False
    page: Page | None = None


Special = Callable[[Sequence[Any], int, bool], Awaitable[list[Any]]]
"""Returns as many first items as the number says, in reverse order if the flag is set."""


def _by_document(_: str) -> Figure | None:
    return None


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """The items of a list, and how to sort and show them."""

    items: Sequence[Item]
    document: Callable[[Item], Document | Written | None]
    """None if the item has gone meanwhile."""
    order: Callable[[Item], tuple[str, ...]]
    """The default sort key; its last part is the name that is searched."""
    figure: Callable[[str], Figure | None] = _by_document
    """How to read a field without a document, if that is possible."""
    special: Mapping[str, Special] = field(default_factory=dict)
    """Sort orders that no figure gives, by name."""
    in_order: bool = False
    """The items are in the default order already."""
    orders: Orders | None = None
    """Keeps the order of very many items for a while, under ``of``, which identifies the list;
    ``stamp`` changes when items come or go."""
    of: Hashable = None
    stamp: Hashable = None


def columns_of(query: Mapping[str, str]) -> Columns | None:
    """Return the columns in a query."""
    if "columns" not in query:
        return None
    paths = [tuple(filter(None, each.split("."))) for each in query["columns"].split(",")]
    return [path for path in paths if path]


def listing_of(query: Mapping[str, str], *, paged: bool = True) -> Listing:
    """Return the list options in a query. Raises 400."""
    reverse = query.get("sort_reverse", "false")
    if reverse not in ("true", "false"):
        raise bad_request(f"expected true or false as sort_reverse, got {reverse[:40]!r}")
    page = _page_of(query) if paged and "page" in query else None
    return Listing(columns_of(query), query.get("sort", ""), reverse == "true", page)


def _page_of(query: Mapping[str, str]) -> Page:
    number, size = query["page"], query.get("page_size")
    parsed, parsed_size = _signed(number), PAGE_SIZE if size is None else _signed(size)
    if parsed is None or parsed_size is None:
        raise bad_request("Pagination parameters are invalid")
    if parsed < 1 or not 1 <= parsed_size <= PAGE_SIZE_MAX:
        shown = "undefined" if size is None else size[:20]
        reason = f"Invalid pagination parameters: page number {number[:20]}, page size {shown}"
        raise Refused(400, "invalid_pagination_parameters", reason)
    return Page(parsed, parsed_size, query.get("name", ""), query.get("use_regex") == "true")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _signed(text: str) -> int | None:
    number = _whole(text.removeprefix("-"))
    return -number if number and text.startswith("-") else number


RANGES: Final = ("lengths", "msg_rates", "data_rates", "node_stats")
"""The kinds of ranges of samples."""


def range_of(query: Mapping[str, str], kind: str) -> Range | None:
    """Return the range of samples in a query, or None if it has none or is no number; ``kind`` is
    ``lengths``, ``msg_rates``, … Raises 400."""
    age_s, step_s = _signed(query.get(f"{kind}_age", "")), _signed(query.get(f"{kind}_incr", ""))
    if age_s is None or step_s is None:
        return None
    if age_s <= 0 or step_s <= 0 or age_s // step_s > SAMPLES_MAX:
        raise bad_request(f"Invalid range parameters: age {age_s}, incr {step_s}")
    return Range(age_s, step_s)


def ranges_of(query: Mapping[str, str], kinds: Mapping[str, Iterable[str]]) -> Mapping[str, Range]:
    """Return the ranges in a query, by counter; ``kinds`` has the counters of each kind of range
    that the document shows. Raises 400, for other kinds as well."""
    found: dict[str, Range] = {}
    for kind in RANGES:
        if (wanted := range_of(query, kind)) is not None:
            found |= dict.fromkeys(kinds.get(kind, ()), wanted)
    return found


async def listed(source: Source[Item], listing: Listing, pause: Pause) -> Any:
    """Return the answer: a list, or an object if a page was requested. Raises 400."""
    items, total = source.items, len(source.items)
    page = listing.page
    if _is_long(source, listing):
        await long_answer()
    if page is not None and page.name:
        items = await _named(items, source.order, page, pause)
    start, end = 0, len(items)
    if page is not None:
        start = judge_page(page, len(items))
        end = min(start + page.size, len(items))
    ordered = await _ordered(source, items, listing, pause, end)
    documents: list[Document | Written] = []
    for item in ordered[start:end]:
        found = source.document(item)
        if isinstance(found, dict):  # always, if columns are requested
            found = narrowed(found, listing.columns)
        if found is not None:
            documents.append(found)
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


def judge_page(page: Page, count: int) -> int:
    """Return the index at which a page of ``count`` items begins. Raises 400 if that is beyond
    them."""
    start = (page.number - 1) * page.size
    if start > count:
        reason = f"Page out of range, page: {page.number} page size: {page.size}, len: {count}"
        raise Refused(400, "page_out_of_range", reason)
    return start


async def _named(
    items: Sequence[Item], order: Callable[[Item], tuple[str, ...]], page: Page, pause: Pause
) -> list[Item]:
    wanted = page.name.casefold()
    matches: Callable[[str], bool] = lambda name: wanted in name.casefold()  # noqa: E731
    at_once = FIGURES_PER_TURN
    found: list[Item] = []
    try:
        if page.is_pattern:
            matches, at_once = compiled_for_many(f"(?i){page.name}"), PATTERNS_PER_TURN
        for begin in range(0, len(items), at_once):
            found += [each for each in items[begin : begin + at_once] if matches(order(each)[-1])]
            await pause()
    except InvalidAccess:
        raise bad_request("Pagination parameters are invalid") from None
    return found


def _is_long(source: Source[Item], listing: Listing) -> bool:
    """Return whether many items are shown, or very many are looked at."""
    total, page = len(source.items), listing.page
    if (total if page is None else min(page.size, total)) > LONG_ITEMS:
        return True
    named = page is not None and page.name
    return total > LOOKED_AT_MAX and bool(named or listing.sort or not source.in_order)


async def _ordered(
    source: Source[Item], items: Sequence[Item], listing: Listing, pause: Pause, end: int
) -> Sequence[Item]:
    """Return the first ``end`` items, and perhaps more."""
    sort, reverse = listing.sort, listing.reverse
    if source.in_order and not sort:
        return items[::-1] if reverse else items
    read = source.figure(sort) if sort else None
    at_once = DOCUMENTS_PER_TURN if sort and read is None else FIGURES_PER_TURN
    figure = _figure(source, sort, read)

    async def find(some: Sequence[Item], pause: Pause) -> list[Item]:
        if (special := source.special.get(sort)) is not None:
            return await special(some, end, reverse)
        first = end if source.orders is None else end + SPARE
        return await in_order(some, figure, pause, end=first, reverse=reverse, at_once=at_once)

    if source.orders is None or listing.page is None:
        return await find(items, pause)
    key = source.of, sort, reverse, listing.page
    return await source.orders.kept(key, source.stamp, items, end, find, pause)


def _figure(source: Source[Item], sort: str, read: Figure | None) -> Figure:
    if not sort:
        return source.order
    path = sort.split(".")
    found: Figure = read or (lambda item: descend(source.document(item), path))
    if source.in_order:
        return found
    return lambda item: (comparable(found(item)), source.order(item))


def descend(document: Any, path: Sequence[str]) -> Any:
    """Return the value at a path in a document, or None."""
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def narrowed(document: Any, columns: Columns | None) -> Any:
    """Return a document, or the documents of a list, with the requested columns; all if none are
    requested. Anything that is not a document has no columns, and is returned unchanged."""
    if columns is None:
        return document
    if isinstance(document, list):
        return [narrowed(each, columns) for each in document]
    if not isinstance(document, dict):
        return document
    found: Document = {}
    for name, value in document.items():
        below = [path[1:] for path in columns if path[0] == name]
        if below:
            found[name] = value if () in below else narrowed(value, below)
    return found
