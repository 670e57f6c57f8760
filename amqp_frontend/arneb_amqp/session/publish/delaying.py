"""The entry of a message that an exchange delays: it is stored until it is due.

The rule: the message is stored as it was published, except for its delay, because it is routed
again when due; and the pseudo-queue for direct replies is replaced by its real name, because nobody
knows later whose it was.
"""

from dataclasses import replace

from arneb_amqp.routing.delayed import delay_ms_of, delayed
from arneb_amqp.routing.reply_to import REPLY_TO, ReplyTo
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.wire.content import with_properties
from arneb_amqp.wire.properties import Properties, encode_properties


def delayed_entry(
    route: CachedRoute,
    properties: Properties,
    body: bytes,
    reply_to: ReplyTo,
    now_ms: int,
    *,
    persistent: bool,
    priority: int,
) -> bytes:
    """Return the entry of a message that an exchange wants to delay."""
    delay_ms = delay_ms_of(properties.headers or {})
    assert delay_ms is not None, "an exchange said that it keeps the message"
    if properties.reply_to == REPLY_TO:
        properties = replace(properties, reply_to=reply_to.current)
    head = route.head(
        now_ms, persistent=persistent, priority=priority, deliver_at_ms=now_ms + delay_ms
    )
    return head + content_when_due(properties, body)


def content_when_due(properties: Properties, body: bytes) -> bytes:
    """Return ``body`` with these properties as it is routed when due."""
    headers = properties.headers or {}
    delay_ms = delay_ms_of(headers)
    if delay_ms is not None:
        properties = replace(properties, headers=delayed(headers, delay_ms))
    return with_properties(body, encode_properties(properties))
