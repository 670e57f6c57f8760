"""Exchanges over HTTP: listed, shown, declared and deleted.

The rule: what an AMQP client would be refused is refused here, in the same words.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from pamqp.commands import Exchange as Methods

from arneb.http.management.figures.counters import (
    OF_EXCHANGES,
    PASSED,
    Counters,
    message_stats,
    of_exchange,
)
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.lists import Source, listed, listing_of, ranges_of
from arneb.http.management.requests.arguments import arguments_in
from arneb.http.management.requests.calls import (
    CREATED,
    DONE,
    Call,
    Document,
    Reply,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import USERS, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.routing.exchange import RESERVED_PREFIX, Exchange
from arneb_amqp.routing.registry import EXCHANGE_TYPES
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_amqp.wire.replies import make

INTERNAL_USER: Final = "rmq-internal"
"""The user who created the exchanges that every vhost has."""

_Row = tuple[Vhost, Exchange]

_RANGES: Final = {"msg_rates": PASSED}


def _read(vhost: Vhost, exchange: str) -> Counters | None:
    traffic = vhost.router.traffic.exchanges.get(exchange)
    return None if traffic is None else of_exchange(traffic)


def exchange_document(site: Site, row: _Row, ranges: Mapping[str, Range]) -> Document:
    """Return one exchange's document."""
    vhost, exchange = row
    predeclared = not exchange.name or exchange.name.startswith(RESERVED_PREFIX)
    document: Document = {
        "name": text_to_json(exchange.name),
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
    }
    policy = vhost.queues.policies.for_exchange(exchange.name).policy
    if policy is not None:
        document["policy"] = policy
    if predeclared:
        document["user_who_performed_action"] = INTERNAL_USER
    counters = _read(vhost, exchange.name)
    if counters is not None and any(counters.values()):
        key = ("exchange", vhost.name, exchange.name)
        read = partial(_read, vhost, exchange.name)
        rates = site.rates.details(key, counters, read, ranges)
        document |= message_stats(counters, rates, OF_EXCHANGES)
    return document


def exchange_in(site: Site, call: Call) -> Exchange:
    """Return the exchange in the path. Raises 404."""
    exchange = site.vhost_of(call).router.exchanges.get(call.exchange)
    if exchange is None:
        raise not_found()
    return exchange


async def _list(site: Site, call: Call) -> Reply:
    rows = [
        (vhost, each)
        for vhost in await site.vhosts_for(call)
        for each in vhost.router.exchanges.values()
    ]
    source = Source(
        rows,
        partial(exchange_document, site, ranges=ranges_of(call.query, _RANGES)),
        lambda row: (row[0].name, row[1].name),
        {
            "name": lambda row: row[1].name,
            "vhost": lambda row: row[0].name,
            "type": lambda row: row[1].type,
            "durable": lambda row: row[1].durable,
        }.get,
    )
    return Reply(await listed(source, listing_of(call.query), site.pause))


async def _show(site: Site, call: Call) -> Reply:
    exchange = exchange_in(site, call)
    row = site.vhost_of(call), exchange
    document = exchange_document(site, row, ranges_of(call.query, _RANGES))
    document |= {"incoming": [], "outgoing": []}
    return Reply(document)


async def _declare(site: Site, call: Call) -> Reply:
    body = call.document()
    vhost = site.vhost_for_change(call)
    kind = "null" if body.given.get("type", "") is None else body.text("type", "direct")
    if kind not in EXCHANGE_TYPES:
        raise bad_request(f"unknown exchange type '{kind[:100]}'")
    existed = call.exchange in vhost.router.exchanges
    actor = await site.acting(call)
    await actor.perform(
        make(
            Methods.Declare, ticket=0, exchange=call.exchange,
            exchange_type=kind, passive=False,
            durable=body.flag("durable"), auto_delete=body.flag("auto_delete"),
            internal=body.flag("internal"), nowait=False, arguments=arguments_in(body),
        )
    )  # fmt: skip
    return DONE if existed else CREATED


async def _delete(site: Site, call: Call) -> Reply:
    exchange_in(site, call)
    actor = await site.acting(call)
    if_unused = call.flag("if-unused")
    delete = partial(make, Methods.Delete, ticket=0, exchange=call.exchange, nowait=False)
    await actor.perform(delete(if_unused=if_unused))
    return DONE


ROUTES: Final = (
    Route("GET", "exchanges", USERS, _list),
    Route("GET", "exchanges/:vhost", VHOST, _list),
    Route("GET", "exchanges/:vhost/:exchange", VHOST, _show),
    Route("PUT", "exchanges/:vhost/:exchange", VHOST, _declare),
    Route("DELETE", "exchanges/:vhost/:exchange", VHOST, _delete),
)
