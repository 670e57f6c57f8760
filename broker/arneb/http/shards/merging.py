"""Merging: one page of a list, out of the first pages of those of several shards.

The rule: each shard sorts and searches what it has; of each so many rows are looked at as the page
could have of it, and no more. By what rows were sorted there they are merged here.
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
    """As the list of queues and topics has them: what is in no vhost comes last."""
    return "" if row["vhost"] else "1", row["vhost"], row["name"]


def _client_order(row: Row) -> tuple[str, ...]:
    return row["vhost"], row["shown_name"]


def _age(row: Row) -> float:
    """The greatest comes first where the oldest do, and what holds none last."""
    at_ms = row.get("oldest_ms")
    return float("-inf") if at_ms is None else -at_ms


@dataclass(frozen=True, slots=True)
class Order:
    """How rows of a list stand, and what they are sorted by that no field of that name says."""

    by_name: Callable[[Any], tuple[str, ...]]
    figures: Mapping[str, Callable[[Any], Any]]


ROWS: Final = Order(_row_order, {"age": _age})
CLIENTS: Final = Order(_client_order, {"opened": lambda row: row["opened_ms"]})
OTHERS: Final = Order(order_of, {})


@dataclass(slots=True)
class FirstRows:
    """The first rows of a list of one shard, as they come, page by page."""

    shard: str
    wanted: int
    """So many, if it has them."""
    rows: list[Any]
    pages: int = 0
    total: int = 0
    filtered: int = 0
    flow: float = 0.0
    """Of clients: how many bytes a second all of them move."""
    has_all: bool = False
    is_whole: bool = False
    """The list knows no pages: these are all of it."""

    @property
    def size(self) -> int:
        """How many to ask for at once."""
        return min(self.wanted, PAGE_SIZE_MAX)

    def take(self, said: Any) -> None:
        """The next page has come."""
        self.pages += 1
        if isinstance(said, list):
            self.rows, self.is_whole, self.has_all = said, True, True
            return
        self.rows += said["items"]
        self.total, self.filtered = said["total_count"], said["filtered_count"]
        self.flow = said.get("flow", 0.0)
        self.has_all = self.pages >= said["page_count"] or len(self.rows) >= self.wanted


async def merged(parts: Sequence[FirstRows], listing: Listing, order: Order) -> Any:
    """The page that is asked for."""
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
    """The first rows of all, those of each shard in its own order. By what is equal they may be
    ordered there by more than is seen here; in another order some would stand on no page, since for
    each page other first rows are looked at."""
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
    """Its rows say which shard they are of: what they are known by may be there in each."""
    for row in part.rows:
        row["shard"] = part.shard
    return part


def judge_range(parts: Sequence[FirstRows], page: Page) -> None:
    """Raises 400 for a page behind the last row, once there are the first rows of every shard."""
    if not any(each.is_whole for each in parts):
        judge_page(page, sum(each.filtered for each in parts))


def judge_noise(parts: Sequence[FirstRows]) -> None:
    """Say which client moves most of what those of all shards move."""
    flow, clients = sum(each.flow for each in parts), sum(each.total for each in parts)
    for part in parts:
        for row in part.rows:
            row["noisy"] = is_noisy(row["flow"], flow, clients)
