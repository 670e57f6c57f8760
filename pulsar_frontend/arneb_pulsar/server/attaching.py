"""Attaching: from SUBSCRIBE to a consumer of the core.

The rule: what is made on the way for a consumer that does not come to be goes again, and a place
that a dead connection holds is free.
"""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from arneb_core.api.consumers import Consumer, ConsumerSpec
from arneb_core.api.errors import (
    ConsumerBusy,
    CoreError,
    KeyRangesRefused,
    SubscriptionBusy,
    SubscriptionNotFound,
    SubscriptionTypeMismatch,
)
from arneb_core.api.key_sharing import KeySharing, KeySharingMode
from arneb_core.api.subscription_types import SubscriptionType
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.names import TopicName
from arneb_pulsar.schemas.compatibility import IncompatibleSchema
from arneb_pulsar.schemas.schema import Schema, SchemaType
from arneb_pulsar.server.receivers import PeerSink, Receiver
from arneb_pulsar.server.refusals import refusal_of
from arneb_pulsar.server.times import clock_ms
from arneb_pulsar.session import effects, events
from arneb_pulsar.session.errors import Refused

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer

SHARING: Final = frozenset({SubscriptionType.SHARED, SubscriptionType.KEY_SHARED})
"""Types whose consumers are shut off when they leave too much unacknowledged."""


class Attaching:
    """Attaches the consumers of one connection."""

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self._door = peer.door

    async def attach(self, effect: effects.AttachConsumer) -> None:
        """Find or make topic and subscription, attach to it."""
        peer = self._peer
        try:
            topic = await self._door.topic(effect.topic, create=effect.create_topic)
            if effect.schema is not None and effect.schema.type is not SchemaType.AUTO_CONSUME:
                await self._check_schema(topic, effect.topic, effect.schema)
            receiver = await self._receiver(topic, effect)
        except (CoreError, Refused, IncompatibleSchema) as error:
            peer.tell(events.ConsumerRefused(effect.key, refusal_of(error)))
            return
        peer.receivers[effect.key] = receiver
        self._door.consumer_came(topic.name, effect.subscription, peer)
        peer.tell(events.ConsumerAttached(effect.key))
        self._door.check_end(topic, receiver.subscription)

    async def _check_schema(self, topic: Topic, name: TopicName, schema: Schema) -> None:
        """A consumer that comes first to an unused topic brings its schema; every other must be
        able to read what is there. Raises :class:`IncompatibleSchema`."""
        schemas = self._door.schemas
        if schemas.find(name) is None and topic.first is None and not self._door.is_used(topic):
            await schemas.attach(name, schema)
        else:
            await schemas.check_consumer(name, schema)

    async def _receiver(self, topic: Topic, effect: effects.AttachConsumer) -> Receiver:
        """The attached consumer. Shielded: a subscription that was made without a trace goes
        with its consumer only, so one must come to be or it must be removed."""
        with trio.CancelScope(shield=True):
            subscription = await self._door.subscribe(
                topic,
                effect.topic,
                effect.subscription,
                durable=effect.durable,
                initial=effect.initial,
                start=effect.start,
                properties=effect.subscription_properties,
            )
            try:
                if effect.rollback_s and not effect.durable:
                    await subscription.seek_time(max(0, clock_ms() - effect.rollback_s * 1000))
                if effect.compacted:
                    await self._door.overlook_superseded(topic, subscription)
                consumer = await self._attach(topic, subscription, effect)
            except BaseException:
                if not effect.durable:
                    # Somebody else may have come to it, or it may have gone.
                    with suppress(SubscriptionBusy, SubscriptionNotFound):
                        await topic.unsubscribe(effect.subscription)
                raise
        takes_any = effect.schema is not None and effect.schema.type is SchemaType.AUTO_CONSUME
        return Receiver(topic, subscription, consumer, takes_any, effect.compacted)

    async def _attach(
        self, topic: Topic, subscription: Subscription, effect: effects.AttachConsumer
    ) -> Consumer:
        """Attach; a place taken by a dead connection is freed first."""
        config = self._door.config
        is_limited = effect.durable and effect.type in SHARING
        spec = ConsumerSpec(
            name=effect.name,
            type=effect.type,
            priority=effect.priority,
            acks=effect.topic.is_persistent,
            partition=effect.topic.partition if effect.topic.partition >= 0 else None,
            unacked_max=config.max_unacked_messages_per_consumer if is_limited else 0,
            subscription_unacked_max=(
                config.max_unacked_messages_per_subscription if is_limited else 0
            ),
            sharing=self._sharing(effect.sharing),
            properties=effect.properties,
        )
        sink = PeerSink(self._peer, effect.key)
        try:
            return subscription.attach(spec, sink)
        except (ConsumerBusy, KeyRangesRefused, SubscriptionTypeMismatch):
            if not await self._door.bury_dead(topic.name, subscription.name, self._peer):
                raise
        return subscription.attach(spec, sink)

    def _sharing(self, wanted: KeySharing) -> KeySharing:
        """``wanted``, with the broker's choice where it has one."""
        if wanted.mode is KeySharingMode.STICKY or self._door.config.key_shared_consistent_hashing:
            return wanted
        return replace(wanted, mode=KeySharingMode.HASH_RANGES)
