"""Publishing: one message without a channel, as the management API and shovels publish it.

The rule: it is routed, refused, expired and delayed like a message of a client. Rights, and whether
the exchange is internal, are checked by the caller. (Channels publish in runs, which
``session/publish`` does.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import trio

from arneb_amqp.routing.checks import carbon_copies, check_expiration, refuse_long
from arneb_amqp.routing.delayed import delay_ms_of, delayed
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.routing.search import Search
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.content import with_properties
from arneb_amqp.wire.properties import (
    DELIVERY_MODE_PERSISTENT,
    Properties,
    encode_properties,
)
from arneb_amqp.wire.route import join_route, routing_key_of
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.topics.topic import Topic


@dataclass(frozen=True, slots=True)
class Published:
    """A message that was routed, and is added to an admission but not stored yet."""

    admitted: bool
    """Whether no full queue refused it."""
    delayed: Sequence[tuple[Topic, bytes]]
    """The entry for each delayed exchange that holds the message back."""


async def publish(
    vhost: Vhost,
    exchange: str,
    routing_key: str,
    properties: Properties,
    body: bytes,
    admission: Admission,
) -> Published:
    """Route a message to ``admission``; the caller commits that, and the delayed entries.

    ``body`` is the content in wire form, with these ``properties``. Raises :class:`.AmqpError` for
    an unknown exchange, or for properties that no client may publish. A checkpoint where the search
    for queues is long.
    """
    expiration_ms = check_expiration(properties.expiration)
    refuse_long("routing key", routing_key)
    copies, kept = carbon_copies(properties)
    search = Search(vhost.router, exchange, routing_key, kept.headers, copies)
    while not search.step():
        await trio.lowlevel.checkpoint()
    result, names = search.result, search.result.queues
    if not names and exchange == DEFAULT_EXCHANGE and vhost.foreign_topic(routing_key):
        names = (routing_key,)
    traffic = vhost.router.traffic.exchanges[exchange]
    traffic.published_in += 1
    traffic.published_out += len(names)

    raw, now_ms = join_route(exchange, routing_key), wall_clock_ms()
    route = CachedRoute(
        exchange, routing_key, raw, names, False, key_hash(routing_key_of(raw)), traffic
    )
    head = partial(
        route.head, now_ms, priority=kept.priority or 0,
        persistent=kept.delivery_mode == DELIVERY_MODE_PERSISTENT,
    )  # fmt: skip
    expires_at_ms = 0
    if expiration_ms is not None:
        expires_at_ms = now_ms + max(1, expiration_ms)
        vhost.queues.expect_expiry(names)
    content = body if kept is properties else with_properties(body, encode_properties(kept))
    entry = head(expires_at_ms=expires_at_ms) + content
    admitted = True
    for name in names:
        if (overflow := vhost.queues.refusing.get(name)) is not None:
            admitted &= admission.offer(overflow, entry)
        elif (topic := vhost.queues.topic(name)) is not None:
            admission.put(topic, entry)

    delay_ms = delay_ms_of(kept.headers or {}) if result.delayed_by else None
    if delay_ms is None:
        return Published(admitted, ())
    held_back = replace(properties, headers=delayed(kept.headers or {}, delay_ms))
    later = head(deliver_at_ms=now_ms + delay_ms)
    later += with_properties(body, encode_properties(held_back))
    topics = map(vhost.delayed_exchanges.topic, result.delayed_by)
    return Published(admitted, [(topic, later) for topic in topics if topic is not None])
