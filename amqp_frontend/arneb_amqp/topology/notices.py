"""Notices: messages of the broker's own, published to an internal exchange of one vhost.

The rule: they go where the exchange is bound to and are lost otherwise; nobody waits for them, no
alternate exchange gets them, and what cannot be stored of them is lost too.
"""

from collections.abc import Iterable
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.properties import (
    DELIVERY_MODE_PERSISTENT,
    Properties,
    encode_properties,
)
from arneb_amqp.wire.route import join_route, routing_key_of
from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CommitFailed
from arneb_core.api.hashing import key_hash

KEY_BYTES_MAX: Final = 255
"""Of a routing key: that of a notice may have a name in it that is as long alone."""

_CHANNEL: Final = ChannelId(1)


class Notices:
    """Publishes the broker's own messages in one vhost."""

    def __init__(self, core: Core, router: Router, queues: Queues) -> None:
        self._core = core
        self._router = router
        self._queues = queues

    def __repr__(self) -> str:
        return f"<Notices in {self._router.vhost!r}>"

    def has_takers(self, exchange: str) -> bool:
        """Somebody is bound to the exchange."""
        return bool(self._router.bindings_from(exchange))

    def add(
        self, admission: Admission, exchange: str, key: str, properties: Properties, body: bytes
    ) -> None:
        """One message more, to be sent with the others of ``admission``."""
        while len(key.encode("utf-8", "surrogateescape")) > KEY_BYTES_MAX:
            key = key[:-1]
        try:
            names = self._router.route(exchange, key, properties.headers).queues
        except AmqpError:
            return  # hostile bindings: nobody can be told
        raw = join_route(exchange, key)
        traffic = self._router.traffic.exchanges[exchange]
        hashed = key_hash(routing_key_of(raw))
        route = CachedRoute(exchange, key, raw, names, False, hashed, traffic)
        persistent = properties.delivery_mode == DELIVERY_MODE_PERSISTENT
        head = route.head(wall_clock_ms(), persistent=persistent)
        entry = head + compose(_CHANNEL, encode_properties(properties), body)
        for name in names:
            if (overflow := self._queues.refusing.get(name)) is not None:
                admission.offer(overflow, entry)
            elif (topic := self._queues.topic(name)) is not None:
                admission.put(topic, entry)

    def tell(self, exchange: str, messages: Iterable[tuple[str, Properties]]) -> None:
        """Publish messages without a body, by their keys, in one commit."""
        admission = Admission()
        for key, properties in messages:
            self.add(admission, exchange, key, properties, b"")
        self.send(admission)

    def send(self, admission: Admission) -> None:
        """Send what was added."""
        appends = list(admission.close().items())
        unit = Unit(appends, passes_over_gone=True, has_batches=False)

        def done(_: CommitFailed | None) -> None:
            admission.over()

        if not appends or self._core.commit(unit, done):
            admission.over()
