"""Merging: one page of a list, from the first pages of several shards' lists.

The rule: each shard sorts and searches its own rows; only as many of each are read as could be on
the page. They are merged here by the sort keys used there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from typing import Any, Final

from arneb.http.management.lists.lists import (
    PAGE_SIZE_MAX,
    Listing,
    Page,
    Source,
    descend,
    judge_page,
    listed,
)
from arneb.http.management.lists.ordering import FIGURES_PER_TURN, comparable
from arneb.http.management.page.clients import is_noisy
from arneb.http.server.long_answers import between_pieces
from arneb.http.shards.gathering import order_of

Row = Mapping[str, Any]


def _row_order(row: Row) -> tuple[str, ...]:
    """Return the default sort key in the list of queues and topics: rows in no vhost come last."""
    return "" if row["vhost"] else "1", row["vhost"], row["name"]


def _client_order(row: Row) -> tuple[str, ...]:
    return row["vhost"], row["shown_name"]


def _age(row: Row) -> float:
    """Return the sort key for the age of the oldest message; rows without messages count as
    youngest."""
    at_ms = row.get("oldest_ms")
    return float("-inf") if at_ms is None else -at_ms


@dataclass(frozen=True, slots=True)
class Order:
    """A list's default order, and the sort keys that are not fields of the same name."""

    by_name: Callable[[Any], tuple[str, ...]]
    figures: Mapping[str, Callable[[Any], Any]]


ROWS: Final = Order(_row_order, {"age": _age})
CLIENTS: Final = Order(_client_order, {"opened": lambda row: row["opened_ms"]})
OTHERS: Final = Order(order_of, {})


@dataclass(slots=True)
class FirstRows:
    """The first rows of one shard's list, read page by page."""

    shard: str
    wanted: int
    """The number of rows to read, if there are as many."""
    rows: list[Any]
    pages: int = 0
    total: int = 0
    filtered: int = 0
    flow: float = 0.0
    """For lists of clients: the bytes a second of all of them."""
    has_all: bool = False
    is_whole: bool = False
    """The list has no pages: these are all its rows."""

    @property
    def size(self) -> int:
        """The number of rows per request."""
        return min(self.wanted, PAGE_SIZE_MAX)

    def take(self, page: Any) -> None:
        """Take the next page."""
        self.pages += 1
        if isinstance(page, list):
            self.rows, self.is_whole, self.has_all = page, True, True
            return
        self.rows += page["items"]
        self.total, self.filtered = page["total_count"], page["filtered_count"]
        self.flow = page.get("flow", 0.0)
        self.has_all = self.pages >= page["page_count"] or len(self.rows) >= self.wanted


async def merged(parts: Sequence[FirstRows], listing: Listing, order: Order) -> Any:
    """Return the requested page."""
    assert listing.page is not None
    if any(each.is_whole for each in parts):
        rows = [each for part in parts for each in part.rows]
        whole: Source[Any] = Source(rows, lambda each: each, order.by_name, order.figures.get)
        return await listed(whole, listing, between_pieces)
    first = await _first(parts, listing, order)
    source: Source[Any] = Source(first, lambda each: each, order.by_name, in_order=True)
    cut = Listing(listing.columns, page=replace(listing.page, name=""))
    found = await listed(source, cut, between_pieces)
    filtered = sum(each.filtered for each in parts)
    return {
        **found,
        "total_count": sum(each.total for each in parts),
        "filtered_count": filtered,
        "page_count": -(-filtered // listing.page.size),
    }


async def _first(parts: Sequence[FirstRows], listing: Listing, order: Order) -> list[Any]:
    """Merge the first rows of all shards, keeping each shard's order. A shard may order equal rows
    by more than is known here; with another order, some rows would be on no page, since each page
    reads other first rows."""
    read, path = order.figures.get(listing.sort), listing.sort.split(".")

    def key(row: Any) -> tuple[Any, ...]:
        figure = descend(row, path) if read is None else read(row)
        return comparable(figure), order.by_name(row)

    found: list[Any] = []
    for row in merge(*(each.rows for each in parts), key=key, reverse=listing.reverse):
        found.append(row)
        if len(found) % FIGURES_PER_TURN == 0:
            await between_pieces()
    return found


def named(part: FirstRows) -> FirstRows:
    """Put the shard's name into each row: the same names may exist in several shards."""
    for row in part.rows:
        row["shard"] = part.shard
    return part


def judge_range(parts: Sequence[FirstRows], page: Page) -> None:
    """Raise 400 for a page beyond the last row; needs the first rows of every shard."""
    if not any(each.is_whole for each in parts):
        judge_page(page, sum(each.filtered for each in parts))


def judge_noise(parts: Sequence[FirstRows]) -> None:
    """Mark the client that moves most of the bytes of all shards' clients."""
    flow, clients = sum(each.flow for each in parts), sum(each.total for each in parts)
    for part in parts:
        for row in part.rows:
            row["noisy"] = is_noisy(row["flow"], flow, clients)
