"""Reads everything back after a restart, through every protocol.

A marker published at the end of both topics says where to stop: deliveries come in log order, so a
reader that has received the marker has received everything before it.
"""

import asyncio
import random
from typing import Self

import pulsar
from conformance.brokers.arneb import Arneb
from conformance.wire.amqp import AmqpClient, Delivery
from conformance.wire.pulsar import Entry, PulsarClient
from tests.crash.history import History, Identity, Recovery, Seen
from tests.crash.workload import (
    SUBSCRIPTION,
    Names,
    body_of,
    drop,
    identity_of,
    items_of,
    pulsar_client,
)

AUDIT_WITHIN_S = 30.0
MARKER = "fanmarker"
"""The name under which markers are published. They are ordinary messages of both topics, so that
they obey the same rules."""

MARKER_BYTES = 40
KEPT_PART = 0.12
"""The part of the backlog that is left unacknowledged for the next life."""


class AuditStuck(Exception):
    """A marker did not arrive: the broker stopped delivering."""


class Audit:
    """Reads everything once: call ``read``, then ``acknowledge_most`` if all is well, then
    ``close``."""

    def __init__(
        self,
        broker: Arneb,
        names: Names,
        history: History,
        amqp: AmqpClient,
        raw: PulsarClient,
    ) -> None:
        self._names = names
        self._history = history
        self._amqp = amqp
        self._raw = raw
        self._wheel = pulsar_client(broker)
        self._marker = (MARKER, history.published.get(MARKER, 0) + 1)
        self._tags: dict[Identity, int] = {}
        self._entries: list[Entry] = []

    @classmethod
    async def open(cls, broker: Arneb, names: Names, history: History) -> Self:
        amqp = await AmqpClient.open(broker.address)
        raw = await PulsarClient.open(broker.pulsar_address)
        return cls(broker, names, history, amqp, raw)

    async def close(self) -> None:
        await self._amqp.abort()
        await self._raw.abort()
        drop(self._wheel)

    async def read(self, *, after_crash: bool) -> Recovery:
        """Everything that the broker has. Raises :class:`AuditStuck`."""
        recovery = Recovery(after_crash=after_crash)
        await self._publish_marker()
        parts = (
            asyncio.to_thread(self._read_topics, recovery),
            self._return_amqp(recovery),
            self._return_pulsar(recovery),
        )
        try:
            await asyncio.wait_for(asyncio.gather(*parts), AUDIT_WITHIN_S)
        except (TimeoutError, pulsar.Timeout):
            raise AuditStuck(
                f"stuck: expected marker {self._marker} everywhere within {AUDIT_WITHIN_S} s; "
                f"{len(recovery.log)} in the log, {len(recovery.copied)} in the copy, "
                f"{len(recovery.amqp)} back over AMQP, {len(recovery.pulsar)} back over Pulsar"
            ) from None
        return recovery

    async def acknowledge_most(self, dice: random.Random) -> None:
        """Acknowledge all but a random part of what came back, so that the backlog does not
        grow."""
        identities = [identity for identity in self._tags if dice.random() > KEPT_PART]
        self._history.amqp.send(identities)
        for identity in identities:
            self._amqp.acknowledge(self._tags[identity])
        entries = [entry for entry in self._entries if dice.random() > KEPT_PART]
        items = [item for entry in entries for item in items_of(entry)]
        if entries:
            self._history.pulsar.send(items)
            await self._raw.acknowledge([(entry.place, None) for entry in entries])
            self._history.pulsar.receipt(items)
        await self._amqp.round_trip()
        self._history.amqp.reach(identities, asyncio.get_running_loop().time())

    async def _publish_marker(self) -> None:
        confirmed = asyncio.Event()
        await self._amqp.confirm_select()
        self._amqp.handlers.confirmed = lambda tags, acked: confirmed.set()
        self._history.published[MARKER] = self._marker[1]
        self._amqp.publish(self._names.exchange, "", body_of(self._marker, MARKER_BYTES))
        await asyncio.wait_for(confirmed.wait(), AUDIT_WITHIN_S)
        self._history.confirmed[self._marker] = None

    def _read_topics(self, recovery: Recovery) -> None:
        for message in self._read(self._names.topic):
            place = message.message_id()
            item = (place.ledger_id(), place.entry_id(), max(place.batch_index(), 0))
            recovery.log.append((item, identity_of(message.data())))
        for message in self._read(self._names.copy_topic):
            recovery.copied.append(identity_of(message.data()))
        recovery.histories = self._read_histories()

    def _read_histories(self) -> list[bytes]:
        """The broker's history of the queue, as far as it is on disk by now."""
        reader = self._wheel.create_reader(self._names.history, pulsar.MessageId.earliest)
        calls: list[bytes] = []
        while reader.has_message_available():
            calls.append(reader.read_next(int(AUDIT_WITHIN_S * 500)).data())
        reader.close()
        return calls

    def _read(self, topic: str) -> list[pulsar.Message]:
        reader = self._wheel.create_reader(topic, pulsar.MessageId.earliest)
        messages = [reader.read_next(int(AUDIT_WITHIN_S * 500))]
        while identity_of(messages[-1].data()) != self._marker:
            messages.append(reader.read_next(int(AUDIT_WITHIN_S * 500)))
        reader.close()
        return messages

    async def _return_amqp(self, recovery: Recovery) -> None:
        done = asyncio.Event()

        def delivered(delivery: Delivery) -> None:
            identity = identity_of(delivery.body)
            recovery.amqp.append(Seen("audit", identity, delivery.redelivered))
            self._tags[identity] = delivery.tag
            if identity == self._marker:
                done.set()

        self._amqp.handlers.delivered = delivered
        await self._amqp.consume(self._names.queue)
        await done.wait()

    async def _return_pulsar(self, recovery: Recovery) -> None:
        done = asyncio.Event()
        last = body_of(self._marker, MARKER_BYTES)

        def received(_: int, entry: Entry) -> None:
            self._entries.append(entry)
            if last in entry.payload:
                done.set()

        self._raw.received = received
        await self._raw.subscribe(self._names.topic, SUBSCRIPTION)
        self._raw.flow(1 << 30)
        try:
            await done.wait()
        finally:
            recovery.pulsar = [item for entry in self._entries for item in items_of(entry)]
            self._history.entries_seen.update(recovery.pulsar)
