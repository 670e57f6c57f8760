"""The entry of a message that an exchange delays: it is kept until its time has come.

The rule: all that is in it but the delay is as it was published, for it is routed once more; only
the pseudo-queue of answers is replaced by its name, since nobody knows later whose it was.
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
    """The entry of the message with ``properties``, which an exchange wants to delay."""
    delay_ms = delay_ms_of(properties.headers or {})
    assert delay_ms is not None, "an exchange said that it keeps the message"
    if properties.reply_to == REPLY_TO:
        properties = replace(properties, reply_to=reply_to.current)
    head = route.head(
        now_ms, persistent=persistent, priority=priority, deliver_at_ms=now_ms + delay_ms
    )
    return head + content_when_due(properties, body)


def content_when_due(properties: Properties, body: bytes) -> bytes:
    """``body`` with these properties, as it is routed when its time has come."""
    headers = properties.headers or {}
    delay_ms = delay_ms_of(headers)
    if delay_ms is not None:
        properties = replace(properties, headers=delayed(headers, delay_ms))
    return with_properties(body, encode_properties(properties))
