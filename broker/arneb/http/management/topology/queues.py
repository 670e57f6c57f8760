"""Queues over HTTP: listed, shown, declared, purged and deleted.

The rule: figures are current.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from pamqp.commands import Queue as Methods

from arneb.http.management.clients.channels import consumer_documents
from arneb.http.management.figures.counters import (
    CONSUMED,
    LENGTHS,
    PUBLISHED,
    lengths_of,
    ready,
    unacknowledged,
)
from arneb.http.management.lists.lists import (
    Listing,
    Source,
    listed,
    listing_of,
    ranges_of,
)
from arneb.http.management.requests.arguments import arguments_in
from arneb.http.management.requests.calls import (
    CREATED,
    DONE,
    Call,
    Document,
    Reply,
    Written,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR, USERS, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb.http.management.topology.queue_fields import figure_of, listed_document, queue_document
from arneb.http.management.topology.queue_texts import listed_text
from arneb_amqp.server.operations.first_message import first_timestamp
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_amqp.wire.replies import make
from arneb_core.api.errors import CoreError, StoreFailed

VHOSTS_PER_TURN: Final = 5

KEPT_MAX: Final = 2000
"""Queues in a list whose texts are kept; those of a longer one would push everything else out of
the budget."""

_RANGES: Final = {"lengths": LENGTHS, "msg_rates": (*PUBLISHED, *CONSUMED)}


def short_document(site: Site, queue: Queue, *, totals: bool) -> Document:
    """Return a queue's document without figures, which is cheap."""
    document: Document = {
        "name": text_to_json(queue.name),
        "vhost": queue.vhost,
        "type": queue.type.value,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": table_to_json(queue.arguments),
        "node": site.node,
        "state": "live",
        "policy": queue.applied.policy,
    }
    if totals:
        document |= lengths_of(queue)
    return document


def queue_in(site: Site, call: Call) -> Queue:
    """Return the queue in the path. Raises 404."""
    queue = site.vhost_of(call).queues.get(call.params["queue"])
    if queue is None:
        raise not_found()
    return queue


async def _list(site: Site, call: Call, *, detailed: bool = False) -> Reply:
    queues: list[Queue] = []
    vhosts = await site.vhosts_for(call)
    for number, vhost in enumerate(vhosts, 1):
        queues += await site.by_name.of(vhost.queues)
        if number % VHOSTS_PER_TURN == 0:
            await site.pause()
    listing = listing_of(call.query)
    document: Callable[[Queue], Document | Written]
    if call.flag("disable_stats"):
        totals = call.flag("enable_queue_totals")
        document = partial(short_document, site, totals=totals)
    else:
        shown = len(queues) if listing.page is None else listing.page.size
        kept = shown <= KEPT_MAX
        document = _documents(site, call, listing, detailed=detailed, kept=kept)
    source = Source(
        queues,
        document,
        lambda queue: (queue.vhost, queue.name),
        partial(figure_of, site),
        in_order=True,
        orders=site.orders,
        of=("queues", tuple(each.queues for each in vhosts)),
        stamp=tuple(each.queues.changes for each in vhosts),
    )
    return Reply(await listed(source, listing, site.pause))


def _documents(
    site: Site, call: Call, listing: Listing, *, detailed: bool, kept: bool
) -> Callable[[Queue], Document | Written]:
    """Return the function that makes a queue's document. ``kept``: written documents may be
    kept."""
    ranges = ranges_of(call.query, _RANGES)
    if listing.columns is not None:
        names = tuple(dict.fromkeys(path[0] for path in listing.columns))
        return lambda queue: queue_document(site, queue, ranges, names=names)
    if detailed:
        return lambda queue: queue_document(site, queue, ranges)
    if kept and not ranges:
        return partial(listed_text, site)
    return partial(listed_document, site, ranges=ranges)


async def _show(site: Site, call: Call) -> Reply:
    queue = queue_in(site, call)
    document = queue_document(site, queue, ranges_of(call.query, _RANGES))
    document |= {"consumer_details": _consumers(site, queue), "deliveries": [], "incoming": []}
    if "head_message_timestamp" in document:
        with suppress(StoreFailed):  # the message may have gone meanwhile
            document["head_message_timestamp"] = await first_timestamp(queue)
    return Reply(document)


def _consumers(site: Site, queue: Queue) -> list[Document]:
    return [
        each
        for each in consumer_documents(site, {queue.vhost})
        if each["queue"]["name"] == text_to_json(queue.name)
    ]


async def declare(site: Site, call: Call) -> Reply:
    """Declare a queue."""
    body = call.document()
    vhost = site.vhost_for_change(call)
    actor = await site.acting(call)
    name = call.params["queue"]
    existed = vhost.has_queue(name)
    await actor.perform(
        make(
            Methods.Declare, ticket=0, queue=name, passive=False, durable=body.flag("durable"),
            exclusive=False, auto_delete=body.flag("auto_delete"), nowait=False,
            arguments=arguments_in(body),
        )
    )  # fmt: skip
    return DONE if existed else CREATED


async def _delete(site: Site, call: Call) -> Reply:
    queue = queue_in(site, call)
    actor = await site.acting(call)
    if call.flag("if-empty") and ready(queue) + unacknowledged(queue):
        raise bad_request(f"{queue} not empty")
    await actor.perform(
        make(
            Methods.Delete, ticket=0, queue=queue.name, if_unused=call.flag("if-unused"),
            if_empty=call.flag("if-empty"), nowait=False,
        )
    )  # fmt: skip
    return DONE


async def _purge(site: Site, call: Call) -> Reply:
    queue = queue_in(site, call)
    actor = await site.acting(call)
    try:
        await actor.perform(make(Methods.Purge, ticket=0, queue=queue.name, nowait=False))
    except CoreError as error:
        raise bad_request(str(error)) from error
    return DONE


async def _act(site: Site, call: Call) -> Reply:
    queue_in(site, call)
    body = call.document()
    body.expect("action")
    if body.text("action") not in ("sync", "cancel_sync"):
        raise bad_request(f"Unknown action {body.text('action')[:100]}")
    return DONE  # there is nothing to synchronise with


ROUTES: Final = (
    Route("GET", "queues", USERS, _list),
    Route("GET", "queues/detailed", USERS, partial(_list, detailed=True)),
    Route("GET", "queues/:vhost", VHOST, _list),
    Route("GET", "queues/:vhost/:queue", VHOST, _show),
    Route("PUT", "queues/:vhost/:queue", VHOST, declare),
    Route("DELETE", "queues/:vhost/:queue", VHOST, _delete),
    Route("DELETE", "queues/:vhost/:queue/contents", VHOST, _purge),
    Route("POST", "queues/:vhost/:queue/actions", ADMINISTRATOR, _act),
)
