"""Vhosts over HTTP.

The rule: PUT replaces a vhost except for its namespace and its limits.
"""

from collections.abc import Mapping
from typing import Any, Final

from arneb.http.management.figures.counters import (
    CONSUMED,
    LENGTHS,
    OCTETS,
    OF_VHOSTS,
    SENT,
    message_stats,
    with_details,
)
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.lists import Source, listed, listing_of, ranges_of
from arneb.http.management.requests.calls import (
    CREATED,
    DONE,
    Call,
    Document,
    Reply,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR, USERS, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.topology.queue_types import QueueType
from arneb_core.access.catalogue import ALL
from arneb_core.access.edits import Edit
from arneb_core.access.records import User, Vhost

UNDEFINED: Final = "undefined"
"""Shown for a default queue type that is not set, as in RabbitMQ's definitions."""

_RANGES: Final = {
    "lengths": LENGTHS,
    "msg_rates": (*SENT, *CONSUMED),
    "data_rates": OCTETS,
}

_TYPES: Final = frozenset(each.value for each in QueueType)


def queue_type_in(value: Any) -> str:
    """Return a default queue type; an empty string means none. Raises 400."""
    if value in (None, "", UNDEFINED):
        return ""
    if not isinstance(value, str) or value not in _TYPES:
        raise bad_request(f"Unsupported default queue type {str(value)[:100]}")
    return value


async def vhost_document(
    site: Site, vhost: Vhost, ranges: Mapping[str, Range], *, stats: bool = True
) -> Document:
    """Return one vhost's document."""
    traced = site.topology.vhost(vhost.name)
    document: Document = {
        "name": vhost.name,
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type or UNDEFINED,
        "metadata": {
            **vhost.metadata,
            "description": vhost.description,
            "tags": list(vhost.tags),
        },
        "tracing": traced is not None and traced.firehose is not None,
        "cluster_state": {site.node: "running"},
    }
    there = site.topology.vhost(vhost.name) if stats else None
    if there is not None:
        counters = {**await site.totals.of(there), **site.roster.octets(vhost.name)}
        rates = site.rates.details(("vhost", vhost.name), counters, lambda: None, ranges)
        if len(there.queues):
            document |= with_details(counters, rates, LENGTHS)
        document |= with_details(counters, rates, OCTETS)
        document |= message_stats(counters, rates, OF_VHOSTS)
    return document


async def _list(site: Site, call: Call) -> Reply:
    if is_monitor(call.caller):
        names = [each.name for each in site.topology.vhosts]
    else:
        names = [each.name for each in await site.vhosts_for(call)]
    records = [each for name in names if (each := site.catalogue.vhost(name)) is not None]
    listing = listing_of(call.query)
    stats = not call.flag("disable_stats")
    ranges = ranges_of(call.query, _RANGES)
    documents = [await vhost_document(site, each, ranges, stats=stats) for each in records]
    source = Source(documents, lambda each: each, lambda each: (each["name"],))
    return Reply(await listed(source, listing, site.pause))


def record_in(site: Site, call: Call) -> Vhost:
    """Return the vhost record in the path. Raises 404."""
    record = site.catalogue.vhost(call.params["vhost"])
    if record is None:
        raise not_found()
    return record


async def _show(site: Site, call: Call) -> Reply:
    ranges = ranges_of(call.query, _RANGES)
    document = await vhost_document(site, record_in(site, call), ranges)
    return Reply(document)


def grant_all(edit: Edit, vhost: str, user: str) -> None:
    """Give the creator of a vhost all rights in it, if that is a user of the catalogue."""
    if edit.get(User, user) is not None:
        edit.set_permissions(user, vhost, ALL, ALL, ALL)


async def _put(site: Site, call: Call) -> Reply:
    body, name = call.document(), call.params["vhost"]
    existed = site.catalogue.vhost(name) is not None
    metadata = dict(body.object("metadata"))
    description = body.text("description", str(metadata.pop("description", "") or ""))
    tags = body.texts("tags")
    kind = queue_type_in(
        body.given.get("default_queue_type", metadata.pop("default_queue_type", None))
    )
    metadata.pop("tags", None)
    tracing = body.flag("tracing") if "tracing" in body.given else None
    caller = call.caller.name
    async with site.catalogue.changing() as edit:
        edit.put_vhost(
            name, description=description, tags=tags, default_queue_type=kind, metadata=metadata
        )
        if not existed:
            grant_all(edit, name, caller)
    if tracing is not None:
        site.vhost(name).trace(site.node if tracing else None)
    return DONE if existed else CREATED


async def _delete(site: Site, call: Call) -> Reply:
    record = record_in(site, call)
    await site.catalogue.delete_vhost(record.name)
    return DONE


async def _start(site: Site, call: Call) -> Reply:
    record_in(site, call)
    return DONE  # every vhost runs


ROUTES: Final = (
    Route("GET", "vhosts", USERS, _list),
    Route("GET", "vhosts/:vhost", ADMINISTRATOR, _show),
    Route("PUT", "vhosts/:vhost", ADMINISTRATOR, _put),
    Route("DELETE", "vhosts/:vhost", ADMINISTRATOR, _delete),
    Route("POST", "vhosts/:vhost/start/:node", ADMINISTRATOR, _start),
)
