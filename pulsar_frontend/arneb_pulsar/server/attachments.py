"""Attachments: from SUBSCRIBE to a consumer of the core.

The rule: if attaching fails, what was created for it is removed again; and a dead connection's
consumer does not block another.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import trio

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.errors import (
    ConsumerBusy,
    CoreError,
    KeyRangesRefused,
    SubscriptionBusy,
    SubscriptionNotFound,
    SubscriptionTypeMismatch,
)
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec, Sink
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import TopicName
from arneb_pulsar.schemas.compatibility import IncompatibleSchema
from arneb_pulsar.schemas.schema import Schema, SchemaType
from arneb_pulsar.server.consumers import ConnectionConsumers, ConnectionSink
from arneb_pulsar.server.numbering import NumberedSink, Start
from arneb_pulsar.server.observed_sink import ObservedSink
from arneb_pulsar.services.clients.connections import ClientConnection, close_dead
from arneb_pulsar.services.clients.consumers import ClientConsumer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.topic_limits import unacked_limits
from arneb_pulsar.services.operations.topic_access import open_topic, skip_superseded, subscribe
from arneb_pulsar.services.operations.topic_lifecycle import is_used, tell_if_ended
from arneb_pulsar.session.connection.rules import TO_SUBSCRIBE
from arneb_pulsar.session.errors import RequestRefused, refusal_of
from arneb_pulsar.session.interface import effects, events
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

PER_TURN_ENTRIES_MAX: Final = 20
"""Entries that one consumer is given before the next one's turn, as by Apache Pulsar's
``dispatcherMaxRoundRobinBatchSize``."""


class Attachments:
    """Attaches the consumers of one connection."""

    def __init__(
        self,
        context: BrokerContext,
        connection: ClientConnection,
        consumers: ConnectionConsumers,
        start: Start,
        check_owned: Callable[[TopicName], None],
    ) -> None:
        """``check_owned`` raises :class:`RequestRefused` for topics that are not served here."""
        self._context = context
        self._connection = connection
        self._consumers = consumers
        self._start = start
        self._check_owned = check_owned

    def __repr__(self) -> str:
        return f"<Attachments to {self._consumers!r}>"

    async def attach(self, effect: effects.AttachConsumer) -> None:
        """Find or create topic and subscription, and attach the consumer."""
        context = self._context
        try:
            self._check_owned(effect.topic)
            topic = await open_topic(context, effect.topic, create=effect.create_topic)
            if effect.schema is not None and effect.schema.type is not SchemaType.AUTO_CONSUME:
                await self._check_schema(topic, effect.topic, effect.schema)
            context.subscribe_rates.check(
                topic, effect.topic, self._connection.address, effect.name, effect.consumer_id
            )
            attached = await self._attached(topic, effect)
        except (CoreError, RequestRefused, IncompatibleSchema) as error:
            self._connection.tell(events.ConsumerRefused(effect.key, refusal_of(error)))
            return
        self._consumers.add(attached)
        context.dispatch_throttles.refresh(topic)
        self._connection.tell(events.ConsumerAttached(effect.key, LedgerIds(topic.id)))
        tell_if_ended(context, topic, attached.subscription)

    async def _check_schema(self, topic: Topic, name: TopicName, schema: Schema) -> None:
        """Check a consumer's schema: the first consumer of an unused topic attaches it, any other
        must be able to read what is there. Raises :class:`IncompatibleSchema`."""
        schemas = self._context.schemas
        if schemas.find(name) is None and topic.first is None and not is_used(self._context, topic):
            may_add = self._context.namespaces.policies(name).may_update_schema is not False
            await schemas.attach(name, schema, may_add=may_add)
        else:
            await schemas.check_consumer(name, schema)

    async def _attached(self, topic: Topic, effect: effects.AttachConsumer) -> ClientConsumer:
        """Attach the consumer. Shielded: a non-durable subscription goes only with its consumer, so
        it must get one or be removed."""
        context = self._context
        with trio.CancelScope(shield=True):
            subscription = await subscribe(
                context,
                topic,
                effect.topic,
                effect.subscription,
                durable=effect.durable,
                initial=effect.initial,
                start=None if effect.start is None else LedgerIds(topic.id).nearest(*effect.start),
                properties=effect.subscription_properties,
            )
            try:
                if effect.rollback_s and not effect.durable:
                    now_ms = context.clock.wall_ms()
                    await subscription.seek_time(max(0, now_ms - effect.rollback_s * 1000))
                if effect.compacted:
                    await skip_superseded(topic, subscription)
                consumer = await self._attach(topic, subscription, effect)
            except BaseException:
                if not effect.durable:
                    # Another consumer may have attached, or the subscription may be gone.
                    with suppress(SubscriptionBusy, SubscriptionNotFound):
                        await topic.unsubscribe(effect.subscription)
                raise
        return ClientConsumer(
            connection=self._connection,
            owner=self._consumers,
            key=effect.key,
            topic=topic,
            subscription=subscription,
            consumer=consumer,
            takes_any=effect.schema is not None and effect.schema.type is SchemaType.AUTO_CONSUME,
            compacted=effect.compacted,
            since=context.clock.iso(),
            counts=effect.counts,
            sharing=effect.sharing,
        )

    async def _attach(
        self, topic: Topic, subscription: Subscription, effect: effects.AttachConsumer
    ) -> Consumer:
        """Attach; if a dead connection holds the place, free it first."""
        config = self._context.config
        of_each, of_all = unacked_limits(self._context.namespaces.policies(effect.topic))
        # Only on durable, shared subscriptions are consumers shut off for too many unacknowledged.
        is_limited = effect.durable and effect.type.traits.sharing
        spec = ConsumerSpec(
            name=effect.name,
            type=effect.type,
            priority=effect.priority,
            # On non-persistent topics Apache Pulsar dispatches each entry by itself, as it comes
            # (NonPersistentTopic.publishMessage), and the next one to the next consumer.
            entries_per_turn_max=PER_TURN_ENTRIES_MAX if effect.topic.is_persistent else 1,
            acks=effect.topic.is_persistent,
            partition=self._partition(effect.topic),
            unacked_max=of_each if is_limited else 0,
            subscription_unacked_max=of_all if is_limited else 0,
            sharing=self._sharing(effect.sharing),
            properties=effect.properties,
        )
        sink: Sink = ConnectionSink(self._connection, self._consumers, effect.key)
        if (observer := self._context.message_observer.observer) is not None:
            of = topic.name, subscription.name, LedgerIds(topic.id)
            sink = ObservedSink(sink, observer, self._connection, *of)
        if config.expose_broker_entry_metadata and effect.reads_broker_metadata:
            sink = NumberedSink(sink, topic, self._start)
        self._check(effect, topic, subscription)
        try:
            consumer = subscription.attach(spec, sink)
        except (ConsumerBusy, KeyRangesRefused, SubscriptionTypeMismatch):
            present = self._context.consumers.connections(topic.name, subscription.name)
            if not await close_dead(present, self._connection):
                raise
            self._check(effect, topic, subscription)
            consumer = subscription.attach(spec, sink)
        if isinstance(sink, NumberedSink):
            self._consumers.number(effect.key, sink)
        return consumer

    def _check(
        self, effect: effects.AttachConsumer, topic: Topic, subscription: Subscription
    ) -> None:
        """Check again: the right may be gone since, or the last place taken. Raises
        :class:`RequestRefused`."""
        self._context.limits.check_consumer(topic, effect.topic, subscription, effect.type)
        caller = self._connection.caller
        if not self._context.rights.may_consume(caller, effect.topic, effect.subscription):
            raise RequestRefused(pb.AuthorizationError, TO_SUBSCRIBE)

    def _partition(self, topic: TopicName) -> int | None:
        """Return the number by which consumers on Failover take turns; None: a hash decides."""
        by_hash = self._context.config.failover_consistent_hashing
        return None if by_hash or topic.partition < 0 else topic.partition

    def _sharing(self, wanted: KeySharing) -> KeySharing:
        """Return ``wanted``, with the broker's choice where it has one."""
        config, mode = self._context.config, wanted.mode
        if mode is not KeySharingMode.STICKY and not config.key_shared_consistent_hashing:
            mode = KeySharingMode.HASH_RANGES
        return replace(wanted, mode=mode, look_ahead=config.look_ahead)
