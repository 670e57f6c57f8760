"""Notices: the broker's own messages, published to an internal exchange of one vhost.

The rule: they go to the exchange's bindings and are lost otherwise; nobody waits for them, they
take no alternate exchange, and those that cannot be stored are lost, too.
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
from arneb_core.api.core import Core, Unit
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.clock import wall_clock_ms

KEY_BYTES_MAX: Final = 255
"""Bytes of a routing key: a notice's may contain a name that alone is as long."""

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
        """Whether anything is bound to the exchange."""
        return bool(self._router.bindings_from(exchange))

    def add(
        self, admission: Admission, exchange: str, key: str, properties: Properties, body: bytes
    ) -> None:
        """Add a message, to be sent with the others of ``admission``."""
        while len(key.encode("utf-8", "surrogateescape")) > KEY_BYTES_MAX:
            key = key[:-1]
        try:
            names = self._router.route(exchange, key, properties.headers).queues
        except AmqpError:
            return  # hostile bindings: the notice is lost
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
        """Publish messages without a body, each with its key, in one commit."""
        admission = Admission()
        for key, properties in messages:
            self.add(admission, exchange, key, properties, b"")
        self.send(admission)

    def send(self, admission: Admission) -> None:
        """Send the added messages."""
        appends = list(admission.close().items())
        unit = Unit(appends, passes_over_gone=True, has_batches=False)

        def done(_: CommitFailed | None) -> None:
            admission.over()

        if not appends or self._core.commit(unit, done):
            admission.over()
