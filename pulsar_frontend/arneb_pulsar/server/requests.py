"""Requests of a connection: those that wait for the core each have a task of their own."""

import logging
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import trio

from arneb_core.api.errors import (
    CoreError,
    NotAllowed,
    SubscriptionBusy,
    SubscriptionNotFound,
    TopicFenced,
)
from arneb_core.api.subscriptions import InitialPosition
from arneb_core.api.topics import Topic
from arneb_pulsar.identity.grants import UNAUTHENTIC, Unauthentic
from arneb_pulsar.names import TopicName
from arneb_pulsar.places.policies import QuotaAction
from arneb_pulsar.producers.access import Claim, ClaimRefused
from arneb_pulsar.schemas.compatibility import IncompatibleSchema
from arneb_pulsar.server.keeper import OWNED
from arneb_pulsar.server.producers import CODES, Place, ProducerClaim
from arneb_pulsar.server.refusals import refusal_of
from arneb_pulsar.server.times import clock_ms
from arneb_pulsar.session import effects, events
from arneb_pulsar.session.errors import Failure, Refused, TopicTerminated, failure_of
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer

QUOTA_CODES: Final = {
    QuotaAction.HOLD: pb.ProducerBlockedQuotaExceededError,
    QuotaAction.EXCEPTION: pb.ProducerBlockedQuotaExceededException,
}

logger = logging.getLogger(__name__)

NO_INITIAL: Final = (
    "Could not create the initial subscription due to the auto subscription creation "
    "is not allowed."
)

NOT_ALONE: Final = "Unconnected or shared consumer attempting to unsubscribe"


class Requests:
    """What one connection asked for and waits for."""

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self._door = peer.door
        self._one_done = trio.Event()

    def done(self) -> None:
        """A request is finished, however it went."""
        self._one_done.set()
        self._one_done = trio.Event()

    async def one_done(self) -> None:
        """Wait for the end of some request."""
        await self._one_done.wait()

    # Producers

    async def open_producer(self, effect: effects.OpenProducer) -> None:
        """Find or make the topic, take the name."""
        try:
            topic = await self._door.topic(effect.topic, create=True)
            await self._check_open(topic, effect.topic)
            if effect.initial_subscription:
                await self._make_initial(topic, effect.topic, effect.initial_subscription)
            version = b""
            if effect.schema is not None:
                version = (await self._door.schemas.attach(effect.topic, effect.schema)).bytes
            await self._claim(topic, effect, version)
        except (CoreError, Refused, IncompatibleSchema) as error:
            self._peer.tell(events.ProducerRefused(effect.key, refusal_of(error)))

    async def _make_initial(self, topic: Topic, name: TopicName, subscription: str) -> None:
        """See to it that somebody gets the first message. A refusal must be one that clients do
        not try again."""
        try:
            await self._door.subscribe(topic, name, subscription, initial=InitialPosition.EARLIEST)
        except SubscriptionNotFound as error:
            raise NotAllowed(NO_INITIAL) from error

    async def _check_open(self, topic: Topic, name: TopicName) -> None:
        """Raise unless something may be added to the topic."""
        if topic.id in self._door.registry.ended:
            raise TopicTerminated("Topic was already terminated")
        exceeded = await self._door.keeper.exceeded(topic, name, clock_ms())
        if exceeded is not None and (code := QUOTA_CODES.get(exceeded[1].action)):
            raise Refused(code, "Cannot create producer on topic with backlog quota exceeded")

    async def _claim(self, topic: Topic, effect: effects.OpenProducer, version: bytes) -> None:
        """Have the producer take its name. Whoever is in the way on a dead connection goes."""
        producers, peer = self._door.producers, self._peer
        self._door.deduplications.refresh(topic)
        self._door.throttles.refresh(topic)
        name = effect.name or producers.new_name()
        place = Place(peer, effect.key, topic, version, effect.producer_id, effect.properties)
        claim: ProducerClaim = Claim(name, effect.mode, effect.topic_epoch, place)
        while True:
            if topic.fenced:  # since it was found
                raise TopicFenced(f"{topic!r} is being deleted")
            try:
                producers.claim(claim)
            except ClaimRefused as refused:
                if await self._bury(producers.in_the_way(topic, name)):
                    continue
                raise Refused(CODES[refused.refusal], str(refused)) from refused
            return

    async def _bury(self, holders: Iterable["Peer"]) -> bool:
        """End the connections among ``holders`` that show no sign of life; were there any?"""
        found = False
        for holder in holders:
            if holder is not self._peer and not await holder.is_alive():
                holder.kill()
                found = True
        return found

    # Topics

    def find_topic(self, effect: effects.FindTopic) -> None:
        """Tell whether a topic is there, or may be made."""
        door = self._door
        if not effect.lookup and effect.create and door.all_topics.partitions_to_make(effect.topic):
            self._peer.spawn(self._count_partitions, effect)
            return
        failure = None
        try:
            door.check(effect.topic, create=effect.create)
        except CoreError as error:
            failure = failure_of(error)
        self._found(effect, failure, door.registry.partitions(effect.topic))

    async def _count_partitions(self, effect: effects.FindTopic) -> None:
        """Find out how many partitions the topic has; it may come to be by that."""
        failure, count = None, 0
        try:
            count = await self._door.all_topics.partitions(effect.topic, create=effect.create)
        except CoreError as error:
            failure = failure_of(error)
        self._found(effect, failure, count)

    def _found(self, effect: effects.FindTopic, failure: Failure | None, partitions: int) -> None:
        url = self._peer.service_url
        same_way = not self._door.advertised(url)
        self._peer.tell(
            events.TopicFound(effect.request_id, effect.lookup, url, failure, partitions, same_way)
        )

    # Schemas

    async def attach_schema(self, effect: effects.AttachSchema) -> None:
        """Find or attach a schema."""
        version, failure = b"", None
        try:
            self._door.check(effect.topic, create=False)
            version = (await self._door.schemas.attach(effect.topic, effect.schema)).bytes
        except (CoreError, IncompatibleSchema) as error:
            failure = refusal_of(error)
        self._peer.tell(events.SchemaAttached(effect.request_id, version, failure))

    # Subscriptions

    async def seek(self, effect: effects.Seek) -> None:
        """Move the subscription; whatever goes wrong is UnknownError, as in Pulsar."""
        failure = None
        receiver = self._peer.receivers.get(effect.key)
        try:
            if receiver is None:
                failure = Failure(pb.UnknownError, "The consumer is gone")
            elif effect.place is not None:
                await receiver.subscription.seek(effect.place, effect.mask)
            else:
                await receiver.subscription.seek_time(effect.publish_time_ms or 0)
        except CoreError as error:
            failure = Failure(pb.UnknownError, f"Reset of the subscription failed: {error}")
        self._peer.tell(events.SeekDone(effect.key, effect.request_id, failure))

    async def unsubscribe(self, effect: effects.Unsubscribe) -> None:
        """Remove the subscription, if the consumer has it for itself or insists."""
        failure = None
        receiver = self._peer.receivers.get(effect.key)
        if receiver is None:
            failure = Failure(pb.MetadataError, "Consumer not found")
        elif receiver.subscription.name in OWNED:
            failure = Failure(
                pb.NotAllowedError,
                f"Subscription {receiver.subscription.name!r} is the broker's own",
            )
        else:
            try:
                await receiver.topic.unsubscribe(
                    receiver.subscription.name,
                    force=effect.force,
                    leaving=(receiver.consumer,),
                )
            except SubscriptionBusy:
                failure = Failure(pb.MetadataError, NOT_ALONE)
            except CoreError as error:
                failure = failure_of(error)
        self._peer.tell(events.Unsubscribed(effect.key, failure))

    # Identity

    async def authenticate(self, effect: effects.Authenticate) -> None:
        """Look at what the client proves itself with."""
        peer = self._peer
        try:
            grant = await self._door.guard.grant(effect.method, effect.proof, peer.certificate)
        except Unauthentic as error:
            logger.warning("authentication of %s failed: %s", peer.address, error)
            peer.tell(events.NotAuthenticated(UNAUTHENTIC))
            return
        expires = math.inf if grant.expires_s is None else grant.expires_s * 1000
        peer.authenticated(grant, events.Authenticated(expires))

    # Answered at once

    def find_schema(self, effect: effects.FindSchema) -> None:
        """Tell a topic's schema."""
        version = self._door.schemas.find(effect.topic, effect.number)
        self._peer.tell(events.SchemaFound(effect.request_id, effect.topic, version))

    def describe(self, effect: effects.DescribeConsumer) -> None:
        """Tell how a consumer does."""
        receiver = self._peer.receivers.get(effect.key)
        if receiver is not None:
            self._peer.tell(
                events.ConsumerDescribed(
                    effect.key,
                    effect.request_id,
                    receiver.subscription.statistics(),
                    receiver.consumer.in_flight,
                    receiver.consumer.permits,
                    receiver.consumer.is_shut_off,
                    self._peer.address,
                    receiver.since,
                )
            )

    async def read_last(self, effect: effects.ReadLast) -> None:
        """Find the last entry of the topic."""
        receiver = self._peer.receivers.get(effect.key)
        if receiver is None:
            failure = Failure(pb.MetadataError, "Consumer not found")
            self._peer.tell(events.LastUnread(effect.request_id, failure))
            return
        try:
            place, size = await self._door.last_message(
                receiver.topic, compacted=receiver.compacted
            )
        except CoreError as error:
            self._peer.tell(events.LastUnread(effect.request_id, failure_of(error)))
            return
        mark_delete = receiver.subscription.mark_delete
        self._peer.tell(events.LastRead(effect.key, effect.request_id, place, size, mark_delete))
