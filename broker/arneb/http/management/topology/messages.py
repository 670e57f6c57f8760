"""Messages over HTTP: published one at a time, and fetched from queues.

The rule: properties of messages are those that an AMQP client would send and see.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any, Final

from arneb.http.management.requests.arguments import arguments_of
from arneb.http.management.requests.calls import (
    Body,
    Call,
    Document,
    Reply,
    Written,
    bad_request,
    not_authorised,
    not_found,
    written,
)
from arneb.http.management.requests.rules import VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb.http.management.topology.queues import queue_in
from arneb.http.server.long_answers import long_answer
from arneb_amqp.errors import AmqpError, ReplyCode
from arneb_amqp.server.operations.connectionless import Fetched, Taking
from arneb_amqp.wire.json_fields import table_to_json, text_to_json
from arneb_amqp.wire.properties import Properties, encode_properties

TAKEN_MAX: Final = 100_000
"""Messages in one answer."""

TAKEN_BYTES_MAX: Final = 32 * 1024 * 1024
"""Payload bytes in one answer, except that the last message may exceed them; further messages stay
for the next call."""

BYTES_PER_TURN: Final = 256 * 1024
MESSAGE_BYTES: Final = 1024
"""The cost of showing a message, as the number of payload bytes that take as long."""

ACK_MODES: Final = {
    "ack_requeue_true": Taking(requeued=True),
    "reject_requeue_true": Taking(requeued=True),
    "ack_requeue_false": Taking(no_ack=True),
    "reject_requeue_false": Taking(rejected=True),
}

_NUMBERS: Final = frozenset({"delivery_mode", "priority", "timestamp"})


@contextmanager
def by_channel() -> Iterator[None]:
    """Raise AMQP errors as RabbitMQ does for operations through a channel: with their text."""
    try:
        yield
    except AmqpError as error:
        text = f"{error.reply_code.name} - {error.explanation}"
        if error.reply_code is ReplyCode.ACCESS_REFUSED:
            raise not_authorised(text) from error
        if error.reply_code is ReplyCode.NOT_FOUND:
            raise not_found(text, "not_found") from error
        raise bad_request(f"{error.reply_code} {text}") from error


async def _publish(site: Site, call: Call) -> Reply:
    body = call.document()
    vhost = site.vhost_for_change(call)
    if call.exchange not in vhost.router.exchanges:
        raise not_found("exchange_not_found", "not_found")
    body.expect("routing_key", "properties", "payload", "payload_encoding")
    payload = _payload(body)
    properties = _properties(body)
    actor = await site.acting(call)
    with by_channel():
        routed = await actor.publish(call.exchange, body.text("routing_key"), properties, payload)
    if routed is None:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return Reply({"routed": routed})


def _payload(body: Body) -> bytes:
    text, encoding = body.text("payload"), body.text("payload_encoding")
    if encoding == "string":
        return text.encode()
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding[:100]])
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise bad_request("expected a payload in base64") from None


def _properties(body: Body) -> Properties:
    given: dict[str, Any] = {}
    for name, value in body.object("properties").items():
        if name == "headers":
            given[name] = arguments_of(value if isinstance(value, dict) else {})
        elif name in _NUMBERS:
            if type(value) is not int:
                raise bad_request(["not_int", name])
            given[name] = value
        elif name in _NAMES:
            if not isinstance(value, str):
                raise bad_request(["not_string", name])
            given[name] = value
    properties = Properties(**given)
    try:
        encode_properties(properties)
    except ValueError as error:
        raise bad_request(str(error)) from None
    return properties


_NAMES: Final = frozenset(each.name for each in fields(Properties))


async def _get(site: Site, call: Call) -> Reply:
    body = call.document()
    if site.vhost_for_change(call).queues.get(call.params["queue"]) is None:
        raise not_found("queue_not_found", "not_found")
    queue = queue_in(site, call)
    body.expect("ackmode", "count", "encoding")
    taking = ACK_MODES.get(body.text("ackmode"))
    if taking is None:
        raise bad_request(f"Unsupported ackmode. Please use one of {', '.join(ACK_MODES)}.")
    encoding, count = body.text("encoding"), body.number("count")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    cut = body.number("truncate", -1)
    actor = await site.acting(call)
    with by_channel():
        await long_answer()
        count = min(count, TAKEN_MAX) if count >= 0 else TAKEN_MAX  # as in RabbitMQ: all of them
        taken = await actor.take(queue.name, count, taking, TAKEN_BYTES_MAX)
    taken.reverse()
    shown, left = list[Written](), BYTES_PER_TURN
    while taken:
        message = taken.pop()
        shown.append(written(_shown(message, encoding, cut)))
        left -= len(message.payload) + MESSAGE_BYTES
        if left <= 0:
            await site.pause()
            left = BYTES_PER_TURN
    return Reply(shown)


def _shown(message: Fetched, encoding: str, cut: int) -> Document:
    payload = message.payload if cut < 0 else message.payload[:cut]
    shown, how = b64encode(payload).decode(), "base64"
    if encoding == "auto":
        with suppress(UnicodeDecodeError):
            shown, how = payload.decode(), "string"
    return {
        "payload_bytes": len(message.payload),
        "redelivered": message.redelivered,
        "exchange": text_to_json(message.route.exchange),
        "routing_key": text_to_json(message.route.routing_key),
        "message_count": message.message_count,
        "properties": properties_document(message.properties),
        "payload": shown,
        "payload_encoding": how,
    }


def properties_document(properties: Properties) -> Document:
    """Return the properties that are set."""
    shown: Document = {}
    for each in fields(Properties):
        value = getattr(properties, each.name)
        if value is None:
            continue
        if each.name == "headers":
            value = table_to_json(value)
        shown[each.name] = text_to_json(value) if isinstance(value, str) else value
    return shown


ROUTES: Final = (
    Route("POST", "exchanges/:vhost/:exchange/publish", VHOST, _publish),
    Route("POST", "queues/:vhost/:queue/get", VHOST, _get),
)
