"""Queues over HTTP: listed, looked at, made, emptied and deleted.

The rule: figures are those of this instant. Of the counters of all consumers together only those
are shown that are counted: how many were delivered, and not by which method.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pamqp.commands import Queue as Methods

from arneb.http.management.arguments import arguments_in
from arneb.http.management.calls import CREATED, DONE, Call, Document, Reply, bad_request, not_found
from arneb.http.management.channels import consumer_documents, peer_details
from arneb.http.management.counters import (
    MESSAGE_COUNTS,
    STATISTICS,
    counters_of,
    ready,
    unacknowledged,
)
from arneb.http.management.lists import Source, listed, listing_of, narrowed, range_of
from arneb.http.management.rates import Counters, Range
from arneb.http.management.router import Route
from arneb.http.management.rules import ADMINISTRATOR, USERS, VHOST
from arneb.http.management.site import Site
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_amqp.wire.replies import make
from arneb_core.api.errors import CoreError

VHOSTS_PER_TURN: Final = 5


def _read(site: Site, queue: Queue) -> Counters | None:
    vhost = site.topology.vhost(queue.vhost)
    there = vhost is not None and vhost.queues.has(queue) and not queue.topic.fenced
    return counters_of(queue) if there else None


def with_details(
    counters: Counters, rates: dict[str, dict[str, Any]], names: tuple[str, ...]
) -> Document:
    """Counters of these names, each with its rate."""
    shown: Document = {}
    for name in names:
        shown[name] = counters[name]
        shown[f"{name}_details"] = rates[name]
    return shown


def queue_document(
    site: Site, queue: Queue, lengths: Range | None = None, messages: Range | None = None
) -> Document:
    """One queue."""
    counters = counters_of(queue)
    read = partial(_read, site, queue)
    key = ("queue", queue.topic.name)
    rates = site.rates.details(key, counters, read, lengths or messages)
    stored = queue.topic.statistics().bytes
    single = queue.options.single_active_consumer
    active = queue.subscription.active_name if single and queue.is_complete else None
    consumers = queue.consumer_count if queue.is_complete else 0
    document: Document = {
        "name": text_to_json(queue.name),
        "vhost": queue.vhost,
        "type": queue.type.value,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": table_to_json(queue.arguments),
        "node": site.node,
        "state": "running",
        "policy": queue.applied.policy,
        "operator_policy": queue.applied.operator_policy,
        "effective_policy_definition": dict(queue.applied.definition),
        "consumers": consumers,
        "consumer_capacity": 1.0 if consumers and not counters["messages_ready"] else 0,
        "consumer_utilisation": 1.0 if consumers and not counters["messages_ready"] else 0,
        "exclusive_consumer_tag": None,
        "single_active_consumer_tag": active,
        "messages_persistent": counters["messages"] if queue.durable else 0,
        "messages_ram": 0 if queue.durable else counters["messages"],
        "message_bytes": stored,
        "memory": stored if not queue.durable else 0,
        **with_details(counters, rates, MESSAGE_COUNTS),
    }
    if any(counters[name] for name in STATISTICS):
        document["message_stats"] = with_details(counters, rates, STATISTICS)
    if queue.owner is not None:
        owner = site.roster.connection(queue.owner)
        if owner is not None:
            document["owner_pid_details"] = peer_details(owner)
    if queue.type is not QueueType.CLASSIC:
        document |= {"leader": site.node, "members": [site.node], "online": [site.node]}
    return document


def short_document(site: Site, queue: Queue, *, totals: bool) -> Document:
    """A queue without figures, which costs nothing."""
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
        waiting, away = ready(queue), unacknowledged(queue)
        document |= {
            "messages": waiting + away,
            "messages_ready": waiting,
            "messages_unacknowledged": away,
        }
    return document


def queue_in(site: Site, call: Call) -> Queue:
    """The queue in the path. Raises 404."""
    queue = site.vhost_of(call).queues.get(call.params["queue"])
    if queue is None:
        raise not_found()
    return queue


async def _list(site: Site, call: Call) -> Reply:
    queues: list[Queue] = []
    for number, vhost in enumerate(await site.vhosts_for(call), 1):
        queues += vhost.queues
        if number % VHOSTS_PER_TURN == 0:
            await site.pause()
    if call.flag("disable_stats"):
        totals = call.flag("enable_queue_totals")
        document: Callable[[Queue], Document] = partial(short_document, site, totals=totals)
    else:
        lengths, messages = range_of(call.query, "lengths"), range_of(call.query, "msg_rates")
        document = lambda queue: queue_document(site, queue, lengths, messages)  # noqa: E731
    source = Source(
        queues,
        document,
        lambda queue: (queue.vhost, queue.name),
        {
            "name": lambda queue: queue.name,
            "vhost": lambda queue: queue.vhost,
            "durable": lambda queue: queue.durable,
            "type": lambda queue: queue.type.value,
            "consumers": lambda queue: queue.consumer_count,
            "messages": lambda queue: ready(queue) + unacknowledged(queue),
            "messages_ready": ready,
            "messages_unacknowledged": unacknowledged,
        },
    )
    return Reply(await listed(source, listing_of(call.query), site.pause))


async def _show(site: Site, call: Call) -> Reply:
    queue = queue_in(site, call)
    lengths, messages = range_of(call.query, "lengths"), range_of(call.query, "msg_rates")
    document = queue_document(site, queue, lengths, messages)
    document |= {"consumer_details": _consumers(site, queue), "deliveries": [], "incoming": []}
    return Reply(narrowed(document, listing_of(call.query).columns))


def _consumers(site: Site, queue: Queue) -> list[Document]:
    return [
        each
        for each in consumer_documents(site, {queue.vhost})
        if each["queue"]["name"] == text_to_json(queue.name)
    ]


async def declare(site: Site, call: Call) -> Reply:
    """Make a queue."""
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
    Route("GET", "queues/detailed", USERS, _list),
    Route("GET", "queues/:vhost", VHOST, _list),
    Route("GET", "queues/:vhost/:queue", VHOST, _show),
    Route("PUT", "queues/:vhost/:queue", VHOST, declare),
    Route("DELETE", "queues/:vhost/:queue", VHOST, _delete),
    Route("DELETE", "queues/:vhost/:queue/contents", VHOST, _purge),
    Route("POST", "queues/:vhost/:queue/actions", ADMINISTRATOR, _act),
)
