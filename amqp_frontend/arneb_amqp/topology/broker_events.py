"""Broker events: events of the broker, published to the exchange ``amq.rabbitmq.event``.

The rule: the keys and headers are RabbitMQ's, and the headers hold everything. No event is made
while nothing is bound to the exchange, so each method checks that first.

Source: ``rabbit_exchange_type_event`` and what calls ``rabbit_event:notify``, RabbitMQ 3.10.8 and
3.13.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.router import Removed
from arneb_amqp.wire.erlang import render_rows
from arneb_amqp.wire.json_fields import table_from_json
from arneb_amqp.wire.properties import DELIVERY_MODE_PERSISTENT, Properties
from arneb_amqp.wire.tables import Table
from arneb_core.access.acting import BY_ITSELF, acting_user
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.resource_alarms import NOTHING_SHORT, Short

EVENT: Final = "amq.rabbitmq.event"
"""The exchange for events."""

EVENT_EXCHANGE: Final = Exchange(EVENT, "topic", durable=True, internal=True)

Shown = Mapping[str, Any]
"""Headers as JSON values."""


class Teller(Protocol):
    """Publishes in one vhost."""

    def has_takers(self, exchange: str) -> bool:
        """Whether anything is bound to the exchange."""
        ...

    def tell(self, exchange: str, messages: Iterable[tuple[str, Properties]]) -> None:
        """Publish messages without a body, each with its key."""
        ...


class BrokerEvents:
    """Publishes the events of all vhosts. Belongs to the event loop."""

    def __init__(self, node: str = "arneb") -> None:
        self.node = node
        """The broker's name for tools."""
        self._teller: Teller | None = None
        self._short = NOTHING_SHORT

    def __repr__(self) -> str:
        return f"<BrokerEvents {'wanted' if self.wanted else 'for nobody'}>"

    def go_by(self, teller: Teller) -> None:
        """Publish events in the vhost of ``teller``."""
        self._teller = teller

    @property
    def wanted(self) -> bool:
        """Whether anything is bound to the event exchange."""
        return self._teller is not None and self._teller.has_takers(EVENT)

    def emit(self, key: str, shown: Shown) -> None:
        """Publish one event."""
        self.emit_all([(key, shown)])

    def emit_all(self, events: Iterable[tuple[str, Shown]]) -> None:
        """Publish events, in order."""
        if self._teller is None or not self._teller.has_takers(EVENT):
            return
        now_ms = wall_clock_ms()
        messages = [
            (
                key,
                Properties(
                    headers=_table({**shown, "timestamp_in_ms": now_ms}),
                    delivery_mode=DELIVERY_MODE_PERSISTENT,
                    timestamp=now_ms // 1000,
                ),
            )
            for key, shown in events
        ]
        self._teller.tell(EVENT, messages)

    def pid(self, connection: int | None, channel: int = 0) -> str:
        """Return a stand-in for RabbitMQ's process id of a connection or a channel."""
        return "" if connection is None else f"<{self.node}.1.{connection}.{channel}>"

    def alarms_changed(self, short: Short) -> None:
        """Report changes of the resource alarms."""
        for key, resources in (("set", short - self._short), ("cleared", self._short - short)):
            for each in sorted(resources, key=lambda resource: resource.value):
                self.emit(f"alarm.{key}", {"source": each.value, "node": self.node})
        self._short = short

    # The topology

    def queue_created(
        self, vhost: str, name: str, owner: int | None, shown: Shown, arguments: Table
    ) -> None:
        """Report a new queue."""
        if self.wanted:
            more = {"owner_pid": self.pid(owner), "arguments": render_rows(arguments)}
            self.emit("queue.created", {**_named(vhost, name), **shown, **more, **_by()})

    def queue_deleted(self, vhost: str, name: str) -> None:
        """Report a deleted queue."""
        if self.wanted:
            self.emit("queue.deleted", {**_named(vhost, name), **_by()})

    def exchange_created(self, vhost: str, exchange: Exchange) -> None:
        """Report a new exchange."""
        if self.wanted:
            self.emit("exchange.created", _exchange(vhost, exchange))

    def bound(self, vhost: str, binding: Binding) -> None:
        """Report a new binding."""
        if self.wanted:
            self.emit("binding.created", _binding(vhost, binding, acting_user()))

    def removed(self, vhost: str, removed: Removed, *, with_queue: bool) -> None:
        """Report deleted exchanges and bindings, perhaps deleted with a queue."""
        if self.wanted:
            user = BY_ITSELF if with_queue else acting_user()
            self.emit_all(
                [
                    *(("exchange.deleted", {**_named(vhost, each.name), **_by()})
                      for each in removed.exchanges),
                    *(("binding.deleted", _binding(vhost, each, user))
                      for each in removed.bindings),
                ]
            )  # fmt: skip

    def predeclared(self, vhost: str, exchanges: Iterable[Exchange]) -> None:
        """Report the predeclared exchanges of a new vhost."""
        if self.wanted:
            self.emit_all([("exchange.created", _exchange(vhost, each)) for each in exchanges])


SILENT: Final = BrokerEvents()
"""Reports nothing."""


def _table(shown: Shown) -> Table:
    """Return the headers; parameter values that no table can hold become text."""
    try:
        return table_from_json(shown)
    except ValueError:
        texts = {
            name: json.dumps(each) if isinstance(each, dict | list) else each
            for name, each in shown.items()
        }
        return table_from_json(texts)


def _by() -> Shown:
    return {"user_who_performed_action": acting_user()}


def _named(vhost: str, name: str) -> Shown:
    return {"name": name, "vhost": vhost}


def _exchange(vhost: str, exchange: Exchange) -> Shown:
    return {
        **_named(vhost, exchange.name),
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": render_rows(exchange.arguments),
        "policy": "",
        **_by(),
    }


def _binding(vhost: str, binding: Binding, user: str) -> Shown:
    return {
        "source_name": binding.source,
        "source_kind": "exchange",
        "destination_name": binding.destination,
        "destination_kind": binding.kind.value,
        "routing_key": binding.routing_key,
        "arguments": render_rows(binding.arguments),
        "vhost": vhost,
        "user_who_performed_action": user,
    }
