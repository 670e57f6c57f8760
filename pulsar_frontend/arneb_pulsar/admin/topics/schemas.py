"""Schemas of topics: read, attached, compared and deleted.

The rule: they work as for the topics' own clients, with the same checks; only deletion is for
administrators alone. Reading does not need an existing namespace: where there is none, no schema is
found.
"""

import json
from typing import Any, Final

from arneb_core.api.encoding.json_text import InvalidJson, parse_json
from arneb_pulsar.admin.calls.paths import topic_in
from arneb_pulsar.admin.calls.requests import (
    NOTHING_SET,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
)
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import ADMIN, on_topic
from arneb_pulsar.admin.namespaces.namespaces import namespace_of
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.coercion import WrongKind
from arneb_pulsar.namespaces.fields import read_properties, read_table, read_text
from arneb_pulsar.schemas.compatibility import IncompatibleSchema, check_valid, split_key_value
from arneb_pulsar.schemas.schema import WITHOUT_DEFINITION, Schema, SchemaType, Version
from arneb_pulsar.services.context import BrokerContext

INCOMPATIBLE: Final = 409
MALFORMED: Final = 400
INVALID: Final = 422
ACCEPTED: Final = 202

NO_VERSION: Final = -1

BYTES: Final = "BYTES"
"""The API's name for the schema of messages without one; it is stored as NONE."""


async def find(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the latest schema, or one version."""
    number = request.number("version") if "version" in request.names else None
    version = context.schemas.find(topic_in(request), number)
    if version is None:
        raise AdminError(404, "Schema not found")
    return document(_described(version))


async def find_all(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return every version."""
    versions = context.schemas.versions(topic_in(request))
    return document({"getSchemaResponses": [_described(each) for each in versions]})


async def metadata(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return where versions are stored. They are in the store's own tables, so a version's number
    stands for its position."""
    versions = context.schemas.versions(topic_in(request))
    if not versions:
        return NOTHING_SET
    index = [{"version": each.number, "ledgerId": 0, "entryId": each.number} for each in versions]
    return document({"info": index[-1], "index": index})


async def attach(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Attach a schema and return its version."""
    topic, schema = _possible(context, request), _read_valid(request)
    try:
        version = await context.schemas.attach(topic, schema)
    except IncompatibleSchema as error:
        raise AdminError(INCOMPATIBLE, str(error)) from error
    return document({"version": {"version": version.number}})


async def delete(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Delete the schema; with ``force`` version numbers start over."""
    topic = _possible(context, request)
    if request.flag("force"):
        await context.schemas.forget(topic)
        return document({"version": NO_VERSION})
    return document({"version": (await context.schemas.delete(topic)).number})


async def compare(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return whether a schema could be attached."""
    topic, schema = _possible(context, request), _read_valid(request)
    fits = True
    try:
        await context.schemas.check(topic, schema)
    except IncompatibleSchema:
        fits = False
    strategy = context.schemas.strategy(topic).value
    answer = {"schemaCompatibilityStrategy": strategy, "compatibility": fits}
    return document(answer, ACCEPTED)


async def find_version(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return a schema's version; -1 if it is not attached, as no invalid schema is."""
    topic = topic_in(request)
    schema = _read(request)
    try:
        check_valid(schema)
    except IncompatibleSchema:
        return document({"version": NO_VERSION})
    version = await context.schemas.version_of(topic, schema)
    return document({"version": NO_VERSION if version is None else version.number})


def _possible(context: BrokerContext, request: AdminRequest) -> TopicName:
    """Return the topic that a path names, whose namespace must exist."""
    namespace_of(context, request)
    return topic_in(request)


def _described(version: Version) -> dict[str, Any]:
    schema = version.schema
    assert schema is not None, "deletions are not shown"
    return {
        "version": version.number,
        "type": schema.type.name,
        "timestamp": version.timestamp_ms,
        "data": _shown(schema),
        "properties": dict(schema.properties),
    }


def _shown(schema: Schema) -> str:
    if schema.type is not SchemaType.KEY_VALUE:
        return schema.data.decode("utf-8", "replace")
    key, value = (_definition(part) for part in split_key_value(schema))
    return _compact({"key": key, "value": value})


def _definition(part: Schema | None) -> Any:
    """Return the definition of a key or value, which is JSON; empty for a type that needs none."""
    if part is None or part.type in WITHOUT_DEFINITION:
        return ""
    text = _shown(part)
    try:
        return parse_json(text)
    except InvalidJson:
        return text


def _compact(document: Any) -> str:
    """Return a document as Java's clients write it: the same schema is the same text."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _read_valid(request: AdminRequest) -> Schema:
    """Return the schema in a call's body, which must be valid."""
    schema = _read(request)
    try:
        check_valid(schema)
    except IncompatibleSchema as error:
        raise AdminError(INVALID, str(error)) from error
    return schema


def _read(request: AdminRequest) -> Schema:
    """Return the schema in a call's body."""
    try:
        body = read_table(request.json())
        name, data = (_text(body.get(field)) for field in ("type", "schema"))
        given = body.get("properties")
        properties = {} if given is None else read_properties(given)
    except WrongKind as error:
        raise AdminError(MALFORMED, str(error)) from error
    if name != BYTES and name not in SchemaType.__members__:
        known = ", ".join(SchemaType.__members__)
        raise AdminError(INVALID, f"type: expected one of {known}, got {name!r:.40}")
    kind = SchemaType.NONE if name == BYTES else SchemaType[name]
    schema = Schema(kind, data.encode(), properties)
    if kind is SchemaType.KEY_VALUE:
        schema = Schema(kind, _joined(data), properties)
    return schema


def _text(value: Any) -> str:
    """Return the text of a required field."""
    if value is None:
        raise AdminError(INVALID, "expected type and schema")
    return read_text(value)


def _joined(data: str) -> bytes:
    """Return the definition of a key-value schema, whose parts callers give as a document; an empty
    text stands for a type that needs none."""
    try:
        parts = parse_json(data)
        pieces = [parts[which] for which in ("key", "value")]
    except (ValueError, KeyError, TypeError) as error:
        raise AdminError(INVALID, "expected the definitions of key and value") from error
    texts = [b"" if piece == "" else _compact(piece).encode() for piece in pieces]
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


_ROOT: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"

ROUTES: Final[list[Route]] = [
    Route("GET", f"{_ROOT}/schema", on_topic(TopicOperation.GET_METADATA), find),
    Route("GET", f"{_ROOT}/schema/{{version}}", on_topic(TopicOperation.GET_METADATA), find),
    Route("GET", f"{_ROOT}/metadata", on_topic(TopicOperation.GET_METADATA), metadata),
    Route("GET", f"{_ROOT}/schemas", on_topic(TopicOperation.GET_METADATA), find_all),
    Route("POST", f"{_ROOT}/schema", on_topic(TopicOperation.PRODUCE), attach),
    Route("DELETE", f"{_ROOT}/schema", ADMIN, delete),
    Route("POST", f"{_ROOT}/compatibility", ADMIN, compare),
    Route("POST", f"{_ROOT}/version", on_topic(TopicOperation.GET_METADATA), find_version),
]
