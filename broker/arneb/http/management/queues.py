"""Queues over HTTP: listed, looked at, made, emptied and deleted.

The rule: figures are those of this instant.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

from pamqp.commands import Queue as Methods

from arneb.http.management.arguments import arguments_in
from arneb.http.management.calls import CREATED, DONE, Call, Document, Reply, bad_request, not_found
from arneb.http.management.channels import consumer_documents, peer_details
from arneb.http.management.counters import (
    CONSUMED,
    LENGTHS,
    OF_QUEUES,
    PUBLISHED,
    Counters,
    lengths_of,
    message_stats,
    messages,
    of_queue,
    ready,
    unacknowledged,
    with_details,
)
from arneb.http.management.lists import Source, listed, listing_of, narrowed, ranges_of
from arneb.http.management.presence import NO_REDUCTIONS, UNKNOWN_COLLECTIONS, time_to_json
from arneb.http.management.rates import Range
from arneb.http.management.router import Route
from arneb.http.management.rules import ADMINISTRATOR, USERS, VHOST
from arneb.http.management.site import Site
from arneb_amqp.server.first_message import first_timestamp
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_amqp.wire.replies import make
from arneb_core.api.errors import CoreError, StoreFailed

VHOSTS_PER_TURN: Final = 5

NO_RANGES: Final[Mapping[str, Range]] = MappingProxyType({})

_RANGES: Final = {"lengths": LENGTHS, "msg_rates": (*PUBLISHED, *CONSUMED)}


def _read(site: Site, queue: Queue) -> Counters | None:
    vhost = site.topology.vhost(queue.vhost)
    there = vhost is not None and vhost.queues.has(queue) and not queue.topic.fenced
    return of_queue(queue) if there else None


def queue_document(
    site: Site,
    queue: Queue,
    ranges: Mapping[str, Range] = NO_RANGES,
    *,
    detailed: bool = True,
) -> Document:
    """One queue; ``detailed``: with what RabbitMQ leaves out of lists, for it is empty or costs
    something."""
    counters = of_queue(queue)
    key = ("queue", queue.topic.id)
    rates = site.rates.details(key, counters, partial(_read, site, queue), ranges)
    consumers = queue.consumer_count if queue.is_complete else 0
    capacity = 1.0 if consumers and _is_served(queue, counters) else 0
    in_memory = 0 if queue.durable else counters["messages"]
    sizes = _sizes(queue)
    in_memory_bytes = 0 if queue.durable else sizes["message_bytes"]
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
        "consumer_capacity": capacity,
        "consumer_utilisation": capacity,
        "messages_persistent": counters["messages"] if queue.durable else 0,
        "messages_ram": in_memory,
        "message_bytes_persistent": sizes["message_bytes"] if queue.durable else 0,
        "message_bytes_ram": in_memory_bytes,
        "memory": in_memory_bytes,
        **sizes,
        **with_details(counters, rates, LENGTHS),
        **message_stats(counters, rates, OF_QUEUES),
        **NO_REDUCTIONS,
        **_by_type(site, queue, counters),
    }
    if detailed:
        document |= {
            "exclusive_consumer_tag": _exclusive_consumer(queue),
            "single_active_consumer_tag": _active_consumer(queue),
            "garbage_collection": UNKNOWN_COLLECTIONS,
        }
        if (idle_since := site.rates.idle_since_ms(key)) is not None:
            document["idle_since"] = time_to_json(idle_since)
    if queue.owner is not None:
        owner = site.roster.connection(queue.owner)
        if owner is not None:
            document["owner_pid_details"] = peer_details(owner)
    return document


def _is_served(queue: Queue, counters: Counters) -> bool:
    """A message that comes now goes to a consumer at once."""
    return not counters["messages_ready"] or (
        queue.type is not QueueType.STREAM and queue.subscription.room > 0
    )


def _sizes(queue: Queue) -> dict[str, int]:
    """Of the messages, with what the log keeps beside their bodies."""
    if queue.type is QueueType.STREAM or not queue.is_complete:
        everything = ready_bytes = queue.topic.statistics().bytes
    else:
        everything = queue.subscription.backlog_bytes
        ready_bytes = min(queue.subscription.ready_bytes, everything)
    return {
        "message_bytes": everything,
        "message_bytes_ready": ready_bytes,
        "message_bytes_unacknowledged": everything - ready_bytes,
    }


def _by_type(site: Site, queue: Queue, counters: Counters) -> Document:
    """What queues of one type have and others have not."""
    if queue.type is QueueType.CLASSIC:
        in_memory = not queue.durable
        return {
            "messages_ready_ram": counters["messages_ready"] * in_memory,
            "messages_unacknowledged_ram": counters["messages_unacknowledged"] * in_memory,
            "messages_paged_out": counters["messages"] * (not in_memory),
            "message_bytes_paged_out": queue.topic.statistics().bytes * (not in_memory),
            "head_message_timestamp": None,
            "recoverable_slaves": None,
            "backing_queue_status": {
                "len": counters["messages_ready"], "mode": "default", "version": 2,
            },
        }  # fmt: skip
    members: Document = {"leader": site.node, "members": [site.node], "online": [site.node]}
    if queue.type is QueueType.QUORUM:
        members |= {"messages_dlx": 0, "message_bytes_dlx": 0, "open_files": {site.node: 0}}
    else:
        readers = sum(len(each.consumers) for each in queue.topic.subscriptions.values())
        members["readers"] = {site.node: readers}
    return members


def _exclusive_consumer(queue: Queue) -> str | None:
    if not queue.exclusively_consumed or not queue.is_complete:
        return None
    names = [each.name for each in queue.subscription.consumers if each not in queue.unseen]
    return text_to_json(names[0]) if names else None


def _active_consumer(queue: Queue) -> str | None:
    single = queue.options.single_active_consumer and queue.is_complete
    return queue.subscription.active_name if single else None


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
        document |= lengths_of(queue)
    return document


def queue_in(site: Site, call: Call) -> Queue:
    """The queue in the path. Raises 404."""
    queue = site.vhost_of(call).queues.get(call.params["queue"])
    if queue is None:
        raise not_found()
    return queue


async def _list(site: Site, call: Call, *, detailed: bool = False) -> Reply:
    queues: list[Queue] = []
    vhosts = await site.vhosts_for(call)
    for number, vhost in enumerate(vhosts, 1):
        queues += vhost.queues
        if number % VHOSTS_PER_TURN == 0:
            await site.pause()
    if call.flag("disable_stats"):
        totals = call.flag("enable_queue_totals")
        document: Callable[[Queue], Document] = partial(short_document, site, totals=totals)
    else:
        ranges = ranges_of(call.query, _RANGES)
        detailed = detailed or "columns" in call.query
        document = lambda queue: _shown(site, queue, ranges, detailed=detailed)  # noqa: E731
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
            "messages": messages,
            "messages_ready": ready,
            "messages_unacknowledged": unacknowledged,
        },
        site.orders,
        ("queues", tuple((each.name, *_churned(each)) for each in vhosts)),
    )
    return Reply(await listed(source, listing_of(call.query), site.pause))


def _churned(vhost: Vhost) -> tuple[int, int, int]:
    """What changes with the queues that there are."""
    traffic = vhost.router.traffic
    return traffic.queues_created, traffic.queues_deleted, len(vhost.queues)


def _shown(site: Site, queue: Queue, ranges: Mapping[str, Range], *, detailed: bool) -> Document:
    document = queue_document(site, queue, ranges, detailed=detailed)
    if detailed:
        return document
    return {name: value for name, value in document.items() if value is not None}


async def _show(site: Site, call: Call) -> Reply:
    queue = queue_in(site, call)
    document = queue_document(site, queue, ranges_of(call.query, _RANGES))
    document |= {"consumer_details": _consumers(site, queue), "deliveries": [], "incoming": []}
    if "head_message_timestamp" in document:
        with suppress(StoreFailed):  # it may have gone meanwhile
            document["head_message_timestamp"] = await first_timestamp(queue)
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
    Route("GET", "queues/detailed", USERS, partial(_list, detailed=True)),
    Route("GET", "queues/:vhost", VHOST, _list),
    Route("GET", "queues/:vhost/:queue", VHOST, _show),
    Route("PUT", "queues/:vhost/:queue", VHOST, declare),
    Route("DELETE", "queues/:vhost/:queue", VHOST, _delete),
    Route("DELETE", "queues/:vhost/:queue/contents", VHOST, _purge),
    Route("POST", "queues/:vhost/:queue/actions", ADMINISTRATOR, _act),
)
