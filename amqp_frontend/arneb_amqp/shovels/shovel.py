"""One shovel: runs, fails, waits and runs again, until it is removed or done.

The rule: the source gives messages up when the ack mode says so, not before; within this broker
both happen in one commit. Its status is always available.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import Enum
from itertools import count
from typing import Any, Final

import trio

from arneb_amqp.client.events import RemoteClosed
from arneb_amqp.client.uris import BrokerUri
from arneb_amqp.shovels.ends import DestinationEnd, Moved, SourceEnd
from arneb_amqp.shovels.local import LocalDestination, LocalSource, local_destination, local_source
from arneb_amqp.shovels.remote import remote_destination, remote_source
from arneb_amqp.shovels.settings import AckMode, ShovelSettings
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.json_fields import table_from_json
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.tables import Field, array, long, longstr, table
from arneb_core.api.core import Core
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.supervision import sole_error

logger = logging.getLogger(__name__)

BATCH_MAX: Final = 500
"""Messages moved together: as many as share a commit well."""

REFUSED_S: Final = 0.5
"""The wait before refused messages are retried: the destination may be full for long."""

PROPERTY_NAMES: Final = frozenset(each.name for each in fields(Properties))

SHOVELLED: Final = "x-shovelled"
SHOVELLED_TIMESTAMP: Final = "x-shovelled-timestamp"


class ShovelState(Enum):
    """The state of a shovel; the values are RabbitMQ's words."""

    STARTING = "starting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class ShovelStatus:
    """A shovel at one instant."""

    vhost: str
    name: str
    state: ShovelState
    since: str
    """When it entered that state, in RabbitMQ's time format."""
    details: dict[str, Any]


class Shovel:
    """One shovel of a vhost."""

    def __init__(
        self,
        core: Core,
        topology: Topology,
        vhost: str,
        name: str,
        settings: ShovelSettings,
        cluster_name: str = "",
    ) -> None:
        self._core = core
        self._topology = topology
        self.vhost = vhost
        self.name = name
        self.settings = settings
        self._cluster_name = cluster_name
        self._state = ShovelState.STARTING
        self._since = datetime.now(UTC)
        self._reason = ""
        self._running: tuple[BrokerUri, BrokerUri] | None = None
        self._destination: DestinationEnd | None = None
        self._left: int | None = None
        """Messages still to be moved; None: not counted."""

    def __repr__(self) -> str:
        return f"<Shovel {self.name!r} in {self.vhost!r}, {self._state.value}>"

    @property
    def status(self) -> ShovelStatus:
        """Its current status."""
        details: dict[str, Any] = {}
        if self._state is ShovelState.TERMINATED:
            details["reason"] = self._reason
        elif self._running is not None:
            blocked = self._destination is not None and self._destination.is_blocked
            details = {"blocked_status": "blocked" if blocked else "running"} | self._described
        at = self._since  # RabbitMQ pads everything but the year and the hour
        since = f"{at.year}-{at:%m-%d} {at.hour}:{at:%M:%S}"
        return ShovelStatus(self.vhost, self.name, self._state, since, details)

    @property
    def _event_details(self) -> dict[str, Any]:
        """What events say of its state."""
        if self._state is ShovelState.TERMINATED:
            return {"reason": self._reason}
        return {} if self._running is None else self._described

    @property
    def _described(self) -> dict[str, Any]:
        assert self._running is not None, "only asked for while it runs"
        source, destination = self.settings.source, self.settings.destination
        described = {
            "src_uri": self._running[0].shown,
            "src_protocol": "amqp091",
            "dest_uri": self._running[1].shown,
            "dest_protocol": "amqp091",
            "src_queue": source.queue,
            "src_exchange": source.exchange,
            "src_exchange_key": source.exchange_key if source.queue is None else None,
            "dest_queue": destination.queue,
            "dest_exchange": destination.exchange,
            "dest_exchange_key": destination.exchange_key,
        }
        return {name: value for name, value in described.items() if value is not None}

    async def run(self) -> bool:
        """Move messages forever, or until done: then return True. False: it ended with an error and
        must not be retried."""
        for attempt in count():
            self._become(ShovelState.STARTING)
            try:
                await self._move(attempt)
            except RemoteClosed as error:
                self._failed(error)
            except BaseExceptionGroup as group:
                cause = sole_error(group)
                if not isinstance(cause, RemoteClosed):
                    raise
                self._failed(cause)
            else:
                return True
            if not self.settings.reconnect_s:
                return False
            await trio.sleep(self.settings.reconnect_s)
        raise AssertionError("it counts for ever")

    async def _move(self, attempt: int) -> None:
        """Run once, until done. Raises :class:`.RemoteClosed`."""
        settings = self.settings
        sources, destinations = settings.source.uris, settings.destination.uris
        uris = sources[attempt % len(sources)], destinations[attempt % len(destinations)]
        async with AsyncExitStack() as stack:
            destination = await stack.enter_async_context(self._destination_at(uris[1]))
            source = await stack.enter_async_context(self._source_at(uris[0]))
            if self._left is None:
                self._left = settings.delete_after
                if settings.deletes_after_length:
                    self._left = source.length
            self._running, self._destination = uris, destination
            self._become(ShovelState.RUNNING)
            while self._left is None or self._left > 0:
                most = BATCH_MAX if self._left is None else min(BATCH_MAX, self._left)
                batch = await source.receive(most)
                refused = await self._moved(source, destination, batch)
                done = len(batch) - len(refused)
                if self._left is not None:
                    self._left -= done
                if refused:
                    await trio.sleep(REFUSED_S)

    async def _moved(
        self, source: SourceEnd, destination: DestinationEnd, batch: Sequence[Moved]
    ) -> set[int]:
        """Move a batch; return the indexes of refused messages, which the source has again."""
        mode = self.settings.ack_mode
        changed = [self._changed(each) for each in batch]
        if isinstance(source, LocalSource) and isinstance(destination, LocalDestination):
            return await destination.move(changed, source)
        refused = await destination.put(changed, confirmed=mode is AckMode.ON_CONFIRM)
        await source.acknowledge(batch, refused)
        return refused

    def _changed(self, message: Moved) -> Moved:
        """Return the message as it is published."""
        wanted = self.settings.destination
        exchange, key, body = message.exchange, message.routing_key, message.body
        if wanted.queue is not None:
            exchange, key = "", wanted.queue
        elif wanted.exchange is not None:
            exchange = wanted.exchange
        if wanted.queue is None and wanted.exchange_key is not None:
            key = wanted.exchange_key
        if wanted.forward_headers or wanted.timestamp_header or wanted.publish_properties:
            properties = decode_properties(properties_of(body))
            body = with_properties(body, encode_properties(self._with_headers(properties)))
        return Moved(exchange, key, body, message.tag, message.part)

    def _with_headers(self, properties: Properties) -> Properties:
        wanted, headers = self.settings.destination, dict(properties.headers or {})
        if wanted.publish_properties:
            given = dict(wanted.publish_properties)
            more = given.pop("headers", None)
            known = {name: given[name] for name in given if name in PROPERTY_NAMES}
            properties = replace(properties, **known)
            headers |= table_from_json(more or {})
        if wanted.forward_headers:
            before = headers.get(SHOVELLED)
            earlier = before.value if before is not None and isinstance(before.value, tuple) else ()
            headers[SHOVELLED] = array([self._forwarded(), *earlier])
        if wanted.timestamp_header:
            headers[SHOVELLED_TIMESTAMP] = long(wall_clock_ms() // 1000)
        return replace(properties, headers=headers or None)

    def _forwarded(self) -> Field:
        named = {
            "shovelled-by": self._cluster_name, "shovel-type": "dynamic",
            "shovel-name": self.name, "shovel-vhost": self.vhost,
        }  # fmt: skip
        described = {name.replace("_", "-"): each for name, each in self._described.items()}
        for name in ("src-protocol", "dest-protocol"):
            del described[name]
        texts = {name: longstr(value) for name, value in (named | described).items()}
        return table({"shovelled-by": texts.pop("shovelled-by"), **texts})

    @asynccontextmanager
    async def _source_at(self, uri: BrokerUri) -> AsyncIterator[SourceEnd]:
        wanted, mode = self.settings.source, self.settings.ack_mode
        if uri.is_local:
            vhost = self._vhost_of(uri)
            async with local_source(self._topology, vhost, wanted, mode, self._title) as local:
                yield local
        else:
            async with remote_source(uri, wanted, mode, self._title) as remote:
                yield remote

    @asynccontextmanager
    async def _destination_at(self, uri: BrokerUri) -> AsyncIterator[DestinationEnd]:
        wanted, mode = self.settings.destination, self.settings.ack_mode
        if uri.is_local:
            vhost = self._vhost_of(uri)
            yield await local_destination(self._core, self._topology, vhost, wanted)
        else:
            async with remote_destination(uri, wanted, mode, self._title) as remote:
                yield remote

    @property
    def _title(self) -> str:
        """The name of its connections and consumers."""
        return f"Shovel {self.name}"

    def _vhost_of(self, uri: BrokerUri) -> Vhost:
        name = self.vhost if uri.vhost is None else uri.vhost
        vhost = self._topology.vhost(name)
        if vhost is None:
            why = self._topology.catalogue.misplaced(name)
            raise RemoteClosed(f"vhost {name} not found{': ' if why else ''}{why}")
        return vhost

    def _failed(self, error: RemoteClosed) -> None:
        self._reason = str(error)
        self._become(ShovelState.TERMINATED)
        logger.warning("shovel %r in vhost %r stopped: %s", self.name, self.vhost, error)

    def _become(self, state: ShovelState) -> None:
        if state is not ShovelState.RUNNING:
            self._running = self._destination = None
        self._state, self._since = state, datetime.now(UTC)
        events = self._topology.broker_events
        if events.wanted:
            shown = {"vhost": self.vhost, "name": self.name, "status": state.value}
            events.emit("shovel.worker.status", {**shown, **self._event_details})
