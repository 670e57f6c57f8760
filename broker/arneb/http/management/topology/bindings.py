"""Bindings over HTTP, and the key that identifies a binding.

The rule: a key is opaque to clients and stays the same for the life of the binding: the routing
key, and a digest of the arguments if there are any.
"""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterable
from hashlib import blake2b
from typing import Final
from urllib.parse import quote, quote_plus

from pamqp.base import Frame as Command
from pamqp.commands import Exchange as ExchangeMethods
from pamqp.commands import Queue as QueueMethods

from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.requests.arguments import arguments_in
from arneb.http.management.requests.calls import (
    DEFAULT_EXCHANGE,
    DONE,
    Call,
    Document,
    Reply,
    not_found,
)
from arneb.http.management.requests.rules import USERS, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb.http.management.topology.exchanges import exchange_in
from arneb.http.management.topology.queues import queue_in
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE as NO_NAME
from arneb_amqp.routing.exchange import Binding, DestinationKind
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_amqp.wire.replies import make

HASH_BYTES: Final = 6
"""Length of the arguments' digest; bindings between the same ends must differ in it."""

_Row = tuple[str, Binding]


def properties_key(binding: Binding) -> str:
    """Return the key of a binding among those between the same ends."""
    raw = binding.routing_key.encode("utf-8", "surrogateescape")
    key = quote_plus(raw, safe="").replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    digest = blake2b(binding.arguments_key, digest_size=HASH_BYTES).digest()
    return f"{key}~{urlsafe_b64encode(digest).decode().rstrip('=')}"


def binding_document(row: _Row) -> Document:
    """Return one binding's document."""
    vhost, binding = row
    return {
        "source": text_to_json(binding.source),
        "vhost": vhost,
        "destination": text_to_json(binding.destination),
        "destination_type": binding.kind.value,
        "routing_key": text_to_json(binding.routing_key),
        "arguments": table_to_json(binding.arguments),
        "properties_key": properties_key(binding),
    }


def _default(queue: str) -> Binding:
    """Return the default exchange's binding to a queue."""
    return Binding(NO_NAME, queue, queue)


async def all_bindings(site: Site, vhost: Vhost) -> AsyncIterator[Binding]:
    """Yield the bindings of a vhost, the default exchange's first."""
    for number, queue in enumerate(vhost.queues, 1):
        yield _default(queue.name)
        if number % 1000 == 0:
            await site.pause()
    for exchange in list(vhost.router.exchanges):
        for number, binding in enumerate(list(vhost.router.bindings_from(exchange)), 1):
            yield binding
            if number % 1000 == 0:
                await site.pause()
        await site.pause()


async def _answer(site: Site, call: Call, rows: list[_Row]) -> Reply:
    source = Source(
        rows,
        binding_document,
        lambda row: (row[0], row[1].source, row[1].destination, row[1].routing_key),
        {
            "vhost": lambda row: row[0],
            "source": lambda row: row[1].source,
            "destination": lambda row: row[1].destination,
            "routing_key": lambda row: row[1].routing_key,
        }.get,
    )
    return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))


async def _list(site: Site, call: Call) -> Reply:
    rows = [
        (vhost.name, each)
        for vhost in await site.vhosts_for(call)
        async for each in all_bindings(site, vhost)
    ]
    return await _answer(site, call, rows)


async def _of_queue(site: Site, call: Call) -> Reply:
    vhost, queue = site.vhost_of(call), call.params["queue"]
    if not vhost.has_queue(queue):
        return Reply([])
    found = vhost.router.bindings_to(queue, DestinationKind.QUEUE)
    return await _answer(site, call, _in(vhost, [_default(queue), *found]))


async def _from(site: Site, call: Call) -> Reply:
    vhost, exchange = site.vhost_of(call), call.exchange
    if exchange == NO_NAME:
        return await _answer(site, call, _in(vhost, [_default(q.name) for q in vhost.queues]))
    return await _answer(site, call, _in(vhost, vhost.router.bindings_from(exchange)))


async def _to(site: Site, call: Call) -> Reply:
    vhost = site.vhost_of(call)
    found = vhost.router.bindings_to(call.exchange, DestinationKind.EXCHANGE)
    return await _answer(site, call, _in(vhost, found))


def _in(vhost: Vhost, bindings: Iterable[Binding]) -> list[_Row]:
    return [(vhost.name, each) for each in bindings]


def _ends(call: Call) -> tuple[DestinationKind, str]:
    """Return kind and name of the destination in the path."""
    if "queue" in call.params:
        return DestinationKind.QUEUE, call.params["queue"]
    name = call.params["destination"]
    return DestinationKind.EXCHANGE, NO_NAME if name == DEFAULT_EXCHANGE else name


def _between(site: Site, call: Call) -> tuple[Vhost, DestinationKind, str, list[Binding]]:
    """Return the bindings between the ends in the path. Raises 404 if an end does not exist."""
    vhost = site.vhost_of(call)
    source = exchange_in(site, call).name
    kind, destination = _ends(call)
    if kind is DestinationKind.QUEUE:
        queue_in(site, call)
    elif destination not in vhost.router.exchanges:
        raise not_found()
    if source == NO_NAME:
        found = [_default(destination)] if kind is DestinationKind.QUEUE else []
    else:
        found = [
            each for each in vhost.router.bindings_to(destination, kind) if each.source == source
        ]
    return vhost, kind, destination, found


async def _list_between(site: Site, call: Call) -> Reply:
    vhost, _, _, found = _between(site, call)
    return await _answer(site, call, _in(vhost, found))


def _named(site: Site, call: Call) -> tuple[Vhost, Binding]:
    vhost, _, _, found = _between(site, call)
    for each in found:
        if properties_key(each) == call.params["key"]:
            return vhost, each
    raise not_found()


async def _show(site: Site, call: Call) -> Reply:
    vhost, binding = _named(site, call)
    return Reply(binding_document((vhost.name, binding)))


async def _bind(site: Site, call: Call) -> Reply:
    body = call.document()
    kind, destination = _ends(call)
    site.vhost_for_change(call)
    arguments = arguments_in(body)
    binding = Binding(call.exchange, destination, body.text("routing_key", ""), arguments, kind)
    actor = await site.acting(call)
    await actor.perform(bind_method(binding))
    key = quote(properties_key(binding), safe="~")
    ends = quote(destination or DEFAULT_EXCHANGE, safe="")
    return Reply(status=201, headers={"location": f"{ends}/{key}"})


async def _unbind(site: Site, call: Call) -> Reply:
    _, binding = _named(site, call)
    actor = await site.acting(call)
    await actor.perform(unbind_method(binding))
    return DONE


def bind_method(binding: Binding) -> Command:
    """Return the method with which an AMQP client would bind this."""
    if binding.kind is DestinationKind.QUEUE:
        return make(
            QueueMethods.Bind, ticket=0, queue=binding.destination, exchange=binding.source,
            routing_key=binding.routing_key, nowait=False, arguments=binding.arguments,
        )  # fmt: skip
    return make(
        ExchangeMethods.Bind, ticket=0, destination=binding.destination, source=binding.source,
        routing_key=binding.routing_key, nowait=False, arguments=binding.arguments,
    )  # fmt: skip


def unbind_method(binding: Binding) -> Command:
    """Return the method with which an AMQP client would unbind this."""
    if binding.kind is DestinationKind.QUEUE:
        return make(
            QueueMethods.Unbind, ticket=0, queue=binding.destination, exchange=binding.source,
            routing_key=binding.routing_key, arguments=binding.arguments,
        )  # fmt: skip
    return make(
        ExchangeMethods.Unbind, ticket=0, destination=binding.destination, source=binding.source,
        routing_key=binding.routing_key, nowait=False, arguments=binding.arguments,
    )  # fmt: skip


_TO_QUEUE: Final = "bindings/:vhost/e/:exchange/q/:queue"
_TO_EXCHANGE: Final = "bindings/:vhost/e/:exchange/e/:destination"

ROUTES: Final = (
    Route("GET", "bindings", USERS, _list),
    Route("GET", "bindings/:vhost", VHOST, _list),
    Route("GET", "queues/:vhost/:queue/bindings", VHOST, _of_queue),
    Route("GET", "exchanges/:vhost/:exchange/bindings/source", VHOST, _from),
    Route("GET", "exchanges/:vhost/:exchange/bindings/destination", VHOST, _to),
    *(
        route
        for path in (_TO_QUEUE, _TO_EXCHANGE)
        for route in (
            Route("GET", path, VHOST, _list_between),
            Route("POST", path, VHOST, _bind),
            Route("GET", f"{path}/:key", VHOST, _show),
            Route("DELETE", f"{path}/:key", VHOST, _unbind),
        )
    ),
)
