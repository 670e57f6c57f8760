"""Definitions over HTTP: exports and imports everything declared and set.

The rule: an export can be imported, here and by RabbitMQ. Bodies are read by :mod:`.file`.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from arneb.http.management.access.permissions import permission_document, topic_permission_document
from arneb.http.management.access.users import user_document
from arneb.http.management.access.vhosts import UNDEFINED, record_in
from arneb.http.management.definitions.file import definitions_in
from arneb.http.management.definitions.importing import import_definitions
from arneb.http.management.parameters.parameters import (
    all_global_parameters,
    all_parameters,
    exported_parameter,
)
from arneb.http.management.parameters.policies import policy_document
from arneb.http.management.requests.calls import DONE, Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import ADMINISTRATOR
from arneb.http.management.requests.upload import uploaded
from arneb.http.management.router import Route
from arneb.http.management.site import RABBITMQ_VERSION, Site
from arneb.http.management.topology.bindings import all_bindings, binding_document
from arneb.http.server.long_answers import long_answer
from arneb_amqp.routing.exchange import RESERVED_PREFIX
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_core.access.records import Permission, Policy, TopicPermission, User
from arneb_core.access.records import Vhost as VhostRecord

PRODUCT: Final = "Arneb"

OBJECTS_PER_TURN: Final = 200


async def _export(site: Site, call: Call) -> Reply:
    tables = site.catalogue.tables
    vhosts = [each for each in tables.rows(VhostRecord) if not each.leaving]
    document: Document = _heading(site) | {
        "users": [user_document(each) for each in tables.rows(User)],
        "vhosts": [
            {
                "name": each.name,
                "description": each.description,
                "tags": list(each.tags),
                "default_queue_type": each.default_queue_type or UNDEFINED,
                "metadata": {
                    **each.metadata, "description": each.description, "tags": list(each.tags),
                },
            }
            for each in vhosts
        ],
        "permissions": [permission_document(each) for each in tables.rows(Permission)],
        "topic_permissions": [
            topic_permission_document(each) for each in tables.rows(TopicPermission)
        ],
        "parameters": [exported_parameter(each) for each in all_parameters(tables)],
        "global_parameters": [
            {"name": name, "value": value} for name, value in all_global_parameters(site).items()
        ],
        "policies": [policy_document(each) for each in tables.rows(Policy)],
        "queues": [],
        "exchanges": [],
        "bindings": [],
    }  # fmt: skip
    for vhost in sorted(site.topology.vhosts, key=lambda each: each.name):
        for kind, rows in (
            ("queues", _queues(site, vhost)),
            ("exchanges", _exchanges(site, vhost)),
            ("bindings", _bindings(site, vhost)),
        ):
            document[kind] += [each async for each in rows]
    return _file(call, document)


async def _export_vhost(site: Site, call: Call) -> Reply:
    if site.topology.vhost(call.params["vhost"]) is None:
        raise bad_request("vhost_not_found")
    vhost, name = site.vhost_of(call), record_in(site, call).name
    tables = site.catalogue.tables
    await long_answer()
    document: Document = _heading(site) | {
        "parameters": [
            exported_parameter(each) for each in all_parameters(tables) if each.vhost == name
        ],
        "policies": [policy_document(each) for each in tables.rows(Policy) if each.vhost == name],
        "queues": [each async for each in _queues(site, vhost)],
        "exchanges": [each async for each in _exchanges(site, vhost)],
        "bindings": [each async for each in _bindings(site, vhost)],
    }
    for kind in ("parameters", "policies", "queues", "exchanges", "bindings"):
        for each in document[kind]:
            del each["vhost"]
    return _file(call, document)


def _heading(site: Site) -> Document:
    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": PRODUCT,
        "product_version": site.version,
    }


def _file(call: Call, document: Document) -> Reply:
    wanted = call.query.get("download")
    if wanted is None:
        return Reply(document)
    safe = "".join(c for c in wanted if c.isascii() and (c.isalnum() or c in "._-@"))
    return Reply(document, headers={"content-disposition": f'attachment; filename="{safe}"'})


async def _queues(site: Site, vhost: Vhost) -> AsyncIterator[Document]:
    for number, queue in enumerate(vhost.queues, 1):
        if queue.owner is None:
            yield {
                "name": text_to_json(queue.name),
                "vhost": vhost.name,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "arguments": table_to_json(queue.arguments),
            }
        if number % OBJECTS_PER_TURN == 0:
            await site.pause()


async def _exchanges(site: Site, vhost: Vhost) -> AsyncIterator[Document]:
    for number, each in enumerate(list(vhost.router.exchanges.values()), 1):
        if each.name and not each.name.startswith(RESERVED_PREFIX):
            yield {
                "name": text_to_json(each.name),
                "vhost": vhost.name,
                "type": each.type,
                "durable": each.durable,
                "auto_delete": each.auto_delete,
                "internal": each.internal,
                "arguments": table_to_json(each.arguments),
            }
        if number % OBJECTS_PER_TURN == 0:
            await site.pause()


async def _bindings(site: Site, vhost: Vhost) -> AsyncIterator[Document]:
    async for each in all_bindings(site, vhost):
        if each.source:
            document = binding_document((vhost.name, each))
            del document["properties_key"]
            yield document


async def _import(site: Site, call: Call) -> Reply:
    vhost = site.vhost_for_change(call).name if "vhost" in call.params else None
    kind = call.headers.get("content-type", "")
    definitions = await uploaded(kind, call.body, partial(definitions_in, vhost=vhost))
    await import_definitions(site.catalogue, site.topology, definitions, call.caller.name)
    return DONE


ROUTES: Final = (
    Route("GET", "definitions", ADMINISTRATOR, _export),
    Route("POST", "definitions", ADMINISTRATOR, _import),
    Route("GET", "definitions/:vhost", ADMINISTRATOR, _export_vhost),
    Route("POST", "definitions/:vhost", ADMINISTRATOR, _import),
    # RabbitMQ's former name.
    Route("GET", "all-configuration", ADMINISTRATOR, _export),
    Route("POST", "all-configuration", ADMINISTRATOR, _import),
)
