"""The list of queues and topics, page by page.

The rule: of rows that are not on the page only the sort key is read.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.lists.rows import NO_VHOST, Row
from arneb.http.management.page.row_documents import SORTABLE, figure_of, row_document
from arneb.http.management.requests.calls import Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import USERS, VHOST, is_administrator
from arneb.http.management.router import Route
from arneb.http.management.site import Site

AGE: Final = "age"
"""Sort by the age of the oldest message."""


async def _list(site: Site, call: Call) -> Reply:
    listing = listing_of(call.query)
    if listing.sort and listing.sort not in {*SORTABLE, AGE}:
        raise bad_request(f"cannot sort by {listing.sort[:40]}")
    if listing.page is None:
        raise bad_request("expected page")
    names, rows = await _visible(site, call)

    async def by_age(rows: Sequence[Row], end: int, reverse: bool) -> list[Row]:
        # `reverse` asks for the greatest age first.
        return await site.ages.oldest_first(rows, end, site.pause, reverse=not reverse)

    source = Source(
        rows,
        partial(row_document, site),
        lambda row: (row.vhost, row.name),
        partial(figure_of, site),
        {AGE: by_age},
        in_order=True,
        orders=site.orders,
        of=("rows", names),
        stamp=site.rows.stamp,
    )
    shown = await listed(source, listing, site.pause)
    for each in shown["items"]:
        if each.get("messages"):
            each["oldest_ms"] = await _oldest_ms(site, each)
    return Reply(shown)


async def _visible(site: Site, call: Call) -> tuple[tuple[str, ...], list[Row]]:
    """Return the rows of vhosts that the caller has access to; administrators also see rows in no
    vhost."""
    names = [each.name for each in await site.vhosts_for(call)]
    if "vhost" not in call.params and is_administrator(call.caller):
        names.append(NO_VHOST)
    by_vhost = await site.rows.of(site.core, site.topology)
    rows: list[Row] = []
    for name in names:
        rows += by_vhost.get(name, ())
    return tuple(names), rows


async def _oldest_ms(site: Site, shown: Document) -> int | None:
    topic = site.core.topics.get(shown["topic"])
    main = None if topic is None else Row(shown["topic"], shown["vhost"], topic).main
    return None if topic is None or main is None else await site.ages.of(topic, main)


ROUTES: Final = (
    Route("GET", "page/topics", USERS, _list),
    Route("GET", "page/topics/:vhost", VHOST, _list),
)
