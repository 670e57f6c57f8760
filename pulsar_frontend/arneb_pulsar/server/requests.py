"""Requests of one connection that wait for an answer, other than those of consumers and listings.

The rule: each is answered by one event, whatever goes wrong; a request that has to wait for the
core is a coroutine, which the caller runs in a task of its own.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.errors import (
    CoreError,
    NotAllowed,
    SubscriptionBusy,
    SubscriptionFenced,
    SubscriptionNotFound,
    TopicFenced,
)
from arneb_core.api.nodes.placement import Elsewhere, Placement
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.authentication.grants import UNAUTHENTIC, Certificate, Unauthentic
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS, TopicName
from arneb_pulsar.namespaces.rules import QuotaAction
from arneb_pulsar.producers.access import Claim, ClaimRefused
from arneb_pulsar.schemas.compatibility import IncompatibleSchema
from arneb_pulsar.schemas.schema import Schema
from arneb_pulsar.server.consumers import ConnectionConsumers
from arneb_pulsar.services.clients.connections import ClientConnection, close_dead
from arneb_pulsar.services.clients.producers import (
    CODES,
    ConnectedProducer,
    ProducerClaim,
    ProducerOwner,
)
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.quotas import exceeded_quota
from arneb_pulsar.services.namespaces.ownership import assigned_to
from arneb_pulsar.services.operations.topic_access import last_message, open_topic, subscribe
from arneb_pulsar.session.connection.rules import TO_PRODUCE
from arneb_pulsar.session.errors import (
    RESET_UNDER_WAY,
    Failure,
    RequestRefused,
    TopicTerminated,
    failure_of,
    refusal_of_writer,
)
from arneb_pulsar.session.interface import effects, events
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

QUOTA_CODES: Final = {
    QuotaAction.HOLD: pb.ProducerBlockedQuotaExceededError,
    QuotaAction.EXCEPTION: pb.ProducerBlockedQuotaExceededException,
}

logger = logging.getLogger(__name__)

NO_INITIAL: Final = (
    "Could not create the initial subscription due to the auto subscription creation "
    "is not allowed."
)

SCHEMA_NEEDED: Final = (
    "Producers cannot connect or send message without a schema to topics with a schema"
    "when SchemaValidationEnforced is enabled"
)

BY_PLACE: Final = "Error when resetting subscription"
BY_TIME: Final = "Reset subscription to publish time error"

NOT_ALONE: Final = "Unconnected or shared consumer attempting to unsubscribe"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The two ends of a connection."""

    service_url: str
    """The URL by which the client reached the broker, or should."""
    address: str
    """The address that it comes from."""
    certificate: Certificate = field(default_factory=dict)
    """The certificate that it showed; empty without TLS."""
    is_brought: bool = False
    """It only asks here, and must connect to ``service_url`` to use topics."""
    is_through: bool = False
    """It is to connect there by the same route as here."""


class Requests:
    """Answers what one connection asks for."""

    def __init__(
        self,
        context: BrokerContext,
        connection: ClientConnection,
        endpoint: Endpoint,
        producers: ProducerOwner,
        consumers: ConnectionConsumers,
        authenticated: Callable[[events.Authenticated], None],
    ) -> None:
        self._context = context
        self._connection = connection
        self._endpoint = endpoint
        self._producers = producers
        self._consumers = consumers
        self._authenticated = authenticated

    def __repr__(self) -> str:
        return f"<Requests of {self._endpoint.address}>"

    # Producers

    async def open_producer(self, effect: effects.OpenProducer) -> None:
        """Find or create the topic, and take the name."""
        try:
            self.check_owned(effect.topic)
            topic = await open_topic(self._context, effect.topic, create=True)
            await self._check_open(topic, effect.topic)
            self._check_demands(effect)
            version = await self._brought(effect.topic, effect.schema)
            if effect.initial_subscription and effect.topic.is_persistent:
                await self._make_initial(topic, effect.topic, effect.initial_subscription)
            await self._claim(topic, effect, version)
        except (CoreError, RequestRefused, IncompatibleSchema) as error:
            self._connection.tell(events.ProducerRefused(effect.key, refusal_of_writer(error)))

    def check_owned(self, topic: TopicName) -> None:
        """Raise :class:`RequestRefused` unless this connection may use the topic here."""
        if self._endpoint.is_brought:
            raise self._context.ownership.refusal(topic)
        self._context.ownership.check(topic)

    async def _brought(self, topic: TopicName, schema: Schema | None) -> bytes:
        """Return the version of the schema that a client brings, none for plain bytes. Raises
        :class:`IncompatibleSchema`, also if a schema is required."""
        policies, schemas = self._context.namespaces.policies(topic), self._context.schemas
        if schema is not None:
            may_add = policies.may_update_schema is not False
            return (await schemas.attach(topic, schema, may_add=may_add)).bytes
        broker = self._context.namespaces.defaults
        is_asked = broker.schema_validation or policies.schema_validation
        if is_asked and schemas.find(topic) is not None:
            raise IncompatibleSchema(SCHEMA_NEEDED)
        return b""

    def _check_demands(self, effect: effects.OpenProducer) -> None:
        """Raise :class:`RequestRefused` unless the producer does what its topic requires."""
        name, policies = effect.topic, self._context.namespaces.policies(effect.topic)
        if policies.encryption_required and not effect.encrypted:
            raise RequestRefused(pb.MetadataError, f"Encryption is required in topic {name}")

    async def _make_initial(self, topic: Topic, name: TopicName, subscription: str) -> None:
        """See to it that somebody gets the first message. A refusal must be one that clients do
        not try again."""
        try:
            await subscribe(
                self._context, topic, name, subscription, initial=InitialPosition.EARLIEST
            )
        except SubscriptionNotFound as error:
            raise NotAllowed(NO_INITIAL) from error

    async def _check_open(self, topic: Topic, name: TopicName) -> None:
        """Raise unless messages may be added to the topic."""
        if topic.id in self._context.namespaces.ended:
            raise TopicTerminated("Topic was already terminated")
        now_ms = self._context.clock.wall_ms()
        exceeded = await exceeded_quota(self._context.namespaces, topic, name, now_ms)
        if exceeded is not None and (code := QUOTA_CODES.get(exceeded[1].action)):
            raise RequestRefused(
                code, "Cannot create producer on topic with backlog quota exceeded"
            )

    async def _claim(self, topic: Topic, effect: effects.OpenProducer, version: bytes) -> None:
        """Claim the producer's name; producers in the way on dead connections are removed."""
        producers = self._context.producers
        self._context.deduplications.refresh(topic)
        self._context.throttles.refresh(topic)
        name = effect.name or producers.new_name()
        producer = ConnectedProducer(
            connection=self._connection,
            owner=self._producers,
            key=effect.key,
            topic=topic,
            schema_version=version,
            producer_id=effect.producer_id,
            properties=effect.properties,
            since=self._context.clock.iso(),
        )
        claim: ProducerClaim = Claim(name, effect.mode, effect.topic_epoch, producer)
        while True:
            if topic.fenced:  # since it was found
                raise TopicFenced(f"{topic!r} is being deleted")
            if not self._context.rights.may_produce(self._connection.caller, effect.topic):
                raise RequestRefused(pb.AuthorizationError, TO_PRODUCE)  # since it was asked for
            self._context.limits.check_producer(topic, effect.topic)
            try:
                producers.claim(claim)
            except ClaimRefused as refused:
                if await close_dead(producers.in_the_way(topic, name), self._connection):
                    continue
                raise RequestRefused(CODES[refused.refusal], str(refused)) from refused
            return

    # Topics

    def makes_partitions(self, effect: effects.FindTopic) -> bool:
        """Return whether asking for the topic creates it, with partitions."""
        topics = self._context.topics
        if self._context.ownership.elsewhere(effect.topic.namespace) is not None:
            return False
        return not effect.lookup and effect.create and bool(topics.partitions_to_make(effect.topic))

    def find_topic(self, effect: effects.FindTopic) -> None:
        """Answer whether a topic exists, or may be created."""
        context, failure = self._context, None
        elsewhere = context.ownership.elsewhere(effect.topic.namespace)
        if elsewhere is not None:
            self._tell_where(effect, elsewhere)
            return
        try:
            context.topics.check(effect.topic, create=effect.create)
        except CoreError as error:
            failure = failure_of(error)
        self._found(effect, failure, context.namespaces.partitions(effect.topic))

    async def make_partitions(self, effect: effects.FindTopic) -> None:
        """Answer how many partitions the topic has, which may create it."""
        failure, count = None, 0
        try:
            count = await self._context.topics.partitions(effect.topic, create=effect.create)
        except CoreError as error:
            failure = failure_of(error)
        self._found(effect, failure, count)

    def _tell_where(self, effect: effects.FindTopic, placement: Placement) -> None:
        """Answer for a topic served elsewhere: a lookup is told where, any other request that this
        is the wrong broker."""
        url = ""
        if effect.lookup and isinstance(placement, Elsewhere):
            assigned = assigned_to(placement.addresses)
            by_tls = self._endpoint.service_url.startswith("pulsar+ssl:")
            url = assigned.url_tls if by_tls else assigned.url
        failure = None if url else self._context.ownership.refusal(effect.topic).failure
        self._connection.tell(events.TopicFound(effect.request_id, effect.lookup, url, failure))

    def _found(self, effect: effects.FindTopic, failure: Failure | None, partitions: int) -> None:
        url = self._endpoint.service_url
        endpoint, is_advertised = self._endpoint, self._context.config.advertises(url)
        same_way = endpoint.is_through or not (endpoint.is_brought or is_advertised)
        self._connection.tell(
            events.TopicFound(effect.request_id, effect.lookup, url, failure, partitions, same_way)
        )

    # Schemas

    async def attach_schema(self, effect: effects.AttachSchema) -> None:
        """Find or attach a schema."""
        version, failure = b"", None
        try:
            self._context.topics.check(effect.topic, create=False)
            version = await self._brought(effect.topic, effect.schema)
        except (CoreError, RequestRefused, IncompatibleSchema) as error:
            failure = refusal_of_writer(error)
        self._connection.tell(events.SchemaAttached(effect.request_id, version, failure))

    # Subscriptions

    async def seek(self, effect: effects.Seek) -> None:
        """Move the subscription; any failure is UnknownError, as in Pulsar."""
        failure = None
        attached = self._consumers.find(effect.key)
        what = BY_TIME if effect.position is None else BY_PLACE
        try:
            if attached is None:
                failure = Failure(pb.UnknownError, "The consumer is gone")
            elif effect.position is not None:
                await attached.subscription.seek(effect.position, effect.mask)
            else:
                await attached.subscription.seek_time(effect.publish_time_ms or 0)
        except SubscriptionFenced:
            failure = Failure(pb.UnknownError, f"{what}: {RESET_UNDER_WAY}")
        except CoreError as error:
            failure = Failure(pb.UnknownError, f"{what}: {error}")
        self._connection.tell(events.SeekDone(effect.key, effect.request_id, failure))

    async def unsubscribe(self, effect: effects.Unsubscribe) -> None:
        """Remove the subscription, if the consumer is its only one or forces it."""
        failure = None
        attached = self._consumers.find(effect.key)
        if attached is None:
            failure = Failure(pb.MetadataError, "Consumer not found")
        elif attached.subscription.name in RESERVED_SUBSCRIPTIONS:
            failure = Failure(
                pb.NotAllowedError,
                f"Subscription {attached.subscription.name!r} is the broker's own",
            )
        else:
            try:
                await attached.topic.unsubscribe(
                    attached.subscription.name,
                    force=effect.force,
                    leaving=(attached.consumer,),
                )
            except SubscriptionBusy:
                failure = Failure(pb.MetadataError, NOT_ALONE)
            except CoreError as error:
                failure = failure_of(error)
        self._connection.tell(events.Unsubscribed(effect.key, failure))

    # Identity

    async def authenticate(self, effect: effects.Authenticate) -> None:
        """Check the client's proof of identity."""
        endpoint, authenticator = self._endpoint, self._context.authenticator
        try:
            host = endpoint.address.rpartition(":")[0]
            grant = await authenticator.grant(
                effect.method, effect.proof, endpoint.certificate, host
            )
        except Unauthentic as error:
            logger.warning("authentication of %s failed: %s", endpoint.address, error)
            self._connection.tell(events.NotAuthenticated(UNAUTHENTIC))
            return
        expires = math.inf if grant.expires_s is None else grant.expires_s * 1000
        caller = Caller(grant.role, effect.original)
        self._authenticated(events.Authenticated(expires, caller))

    # Answered at once

    def find_schema(self, effect: effects.FindSchema) -> None:
        """Answer with a topic's schema."""
        version = self._context.schemas.find(effect.topic, effect.number)
        self._connection.tell(events.SchemaFound(effect.request_id, effect.topic, version))

    def describe(self, effect: effects.DescribeConsumer) -> None:
        """Answer with a consumer's statistics."""
        attached = self._consumers.find(effect.key)
        if attached is not None:
            self._connection.tell(
                events.ConsumerDescribed(
                    effect.key,
                    effect.request_id,
                    attached.subscription.statistics(),
                    attached.consumer.in_flight,
                    attached.consumer.permits,
                    attached.consumer.is_shut_off,
                    self._endpoint.address,
                    attached.since,
                )
            )

    async def read_last(self, effect: effects.ReadLast) -> None:
        """Find the last entry of the topic."""
        attached = self._consumers.find(effect.key)
        if attached is None:
            failure = Failure(pb.MetadataError, "Consumer not found")
            self._connection.tell(events.LastUnread(effect.request_id, failure))
            return
        try:
            position, size = await last_message(attached.topic, compacted=attached.compacted)
        except CoreError as error:
            self._connection.tell(events.LastUnread(effect.request_id, failure_of(error)))
            return
        mark_delete = attached.subscription.mark_delete
        self._connection.tell(
            events.LastRead(effect.key, effect.request_id, position, size, mark_delete)
        )
