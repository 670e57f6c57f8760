"""Rules: which right each command of a client needs, all of them in one table.

The rule: a command without a row is not handled, and a row without a need says why. Rights are
checked before the command is carried out; for what takes a while, again when it is done, and for
what lasts, whenever rights change (:mod:`arneb_pulsar.services.clients.rights`). Without
authorization no rule is looked at.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arneb_pulsar.authorization.authorizer import Authorizer, PrefixNeeded
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.authorization.operations import NamespaceOperation, TopicOperation
from arneb_pulsar.session.errors import Failure, RequestRefused
from arneb_pulsar.session.fields import namespace_of, text_of, topic_of
from arneb_pulsar.transactions.states import COORDINATORS
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand, ServerError

TO_PRODUCE: Final = "Client is not authorized to Produce"
TO_SUBSCRIBE: Final = "Client is not authorized to subscribe"
NO_TENANT: Final = "Tenant or namespace or topic does not exist"

Reply = Callable[[int, ServerError, str], bytes]
"""Builds the refusal in the command's own type of answer."""


@dataclass(frozen=True, slots=True)
class TopicNeed:
    """A right on the topic that a command names."""

    operation: TopicOperation
    subscription: str = ""
    """The field that names the subscription concerned; empty = none is."""
    if_named: bool = False
    """The right is needed only if that field is not empty."""

    def allowed(self, authorizer: Authorizer, caller: Caller, command: Any) -> bool:
        """Whether ``caller`` has it. Raises :class:`.PrefixNeeded`, and :class:`.RequestRefused`
        for an invalid topic name."""
        name = ""
        if self.subscription:
            name = text_of(getattr(command, self.subscription), self.subscription)
            if self.if_named and not name:
                return True
        topic = topic_of(command.topic)
        if self.operation is TopicOperation.LOOKUP and str(topic.base) == COORDINATORS:
            return True  # what is done in a transaction needs its own rights
        return authorizer.allows_topic(caller, topic, self.operation, name)


@dataclass(frozen=True, slots=True)
class NamespaceNeed:
    """A right on the namespace that a command names."""

    operation: NamespaceOperation

    def allowed(self, authorizer: Authorizer, caller: Caller, command: Any) -> bool:
        """Whether ``caller`` has it. Raises :class:`.RequestRefused` for an invalid name."""
        namespace = namespace_of(command.namespace)
        return authorizer.allows_namespace(caller, namespace, self.operation)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a command needs and what clients without it are told, or why it needs nothing."""

    needs: tuple[TopicNeed | NamespaceNeed, ...] = ()
    text: str = ""
    reply: Reply = commands.error
    reason: str = ""
    tells_missing: bool = False
    """Clients without the right are told of a missing tenant, as by Apache Pulsar."""

    def __post_init__(self) -> None:
        assert bool(self.needs) == bool(self.text), "expected words for whoever lacks a right"
        assert bool(self.needs) != bool(self.reason), "expected needs, or a reason for none"

    def refusal(self, authorizer: Authorizer, caller: Caller, command: Any) -> bytes | None:
        """Return the refusal for a client that may not do that; None if it may."""
        failure = self._failure(authorizer, caller, command)
        if failure is None:
            return None
        return self.reply(command.request_id, failure.code, failure.text)

    def _failure(self, authorizer: Authorizer, caller: Caller, command: Any) -> Failure | None:
        try:
            if all(need.allowed(authorizer, caller, command) for need in self.needs):
                return None
        except PrefixNeeded as error:
            return Failure(pb.AuthorizationError, str(error))
        except RequestRefused:
            return None  # its handler refuses the name in its own words
        if self.tells_missing:
            namespace = topic_of(command.topic).namespace
            if not authorizer.has_tenant(namespace):
                return Failure(pb.TopicNotFound, f"{NO_TENANT}: {namespace}")
        return Failure(pb.AuthorizationError, self.text)


def _none(reason: str) -> Rule:
    return Rule(reason=reason)


_LOOKUP: Final = (TopicNeed(TopicOperation.LOOKUP),)
_LIST: Final = (NamespaceNeed(NamespaceOperation.GET_TOPICS),)
_SUBSCRIPTION: Final = "initial_subscription_name"

OF_CONSUMER: Final = "it is about a consumer of this connection, whom SUBSCRIBE let in"
OF_PRODUCER: Final = "it is about a producer of this connection, whom PRODUCER let in"
OF_OWNER: Final = "it is about a transaction of the caller's own; a super user has everybody's"
BETWEEN_BROKERS: Final = "it is always refused: it is what brokers of Apache Pulsar say"

RULES: Final[Mapping[int, Rule]] = {
    BaseCommand.CONNECT: _none("it is the login"),
    BaseCommand.AUTH_RESPONSE: _none("it is the login, renewed"),
    BaseCommand.PING: _none("it asks for nothing"),
    BaseCommand.PONG: _none("it asks for nothing"),
    BaseCommand.PARTITIONED_METADATA: Rule(
        _LOOKUP,
        "Client is not authorized to Get Partition Metadata",
        commands.partitions_failed,
        tells_missing=True,
    ),
    BaseCommand.LOOKUP: Rule(_LOOKUP, "Client is not authorized to Lookup", commands.lookup_failed),
    BaseCommand.GET_TOPICS_OF_NAMESPACE: Rule(
        _LIST, "Client is not authorized to GetTopicsOfNamespace"
    ),
    BaseCommand.WATCH_TOPIC_LIST: Rule(_LIST, "Proxy Client is not authorized to watchTopicList"),
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: _none("it ends something of the client's own"),
    BaseCommand.PRODUCER: Rule(
        (
            TopicNeed(TopicOperation.PRODUCE),
            TopicNeed(TopicOperation.SUBSCRIBE, _SUBSCRIPTION, if_named=True),
        ),
        TO_PRODUCE,
    ),
    BaseCommand.SEND: _none(OF_PRODUCER),
    BaseCommand.CLOSE_PRODUCER: _none("it ends something of the client's own"),
    BaseCommand.SUBSCRIBE: Rule((TopicNeed(TopicOperation.CONSUME, "subscription"),), TO_SUBSCRIBE),
    BaseCommand.FLOW: _none(OF_CONSUMER),
    BaseCommand.ACK: _none(OF_CONSUMER),
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: _none(OF_CONSUMER),
    BaseCommand.SEEK: _none(OF_CONSUMER),
    BaseCommand.GET_LAST_MESSAGE_ID: _none(OF_CONSUMER),
    BaseCommand.CONSUMER_STATS: _none(OF_CONSUMER),
    BaseCommand.UNSUBSCRIBE: _none(OF_CONSUMER),
    BaseCommand.CLOSE_CONSUMER: _none("it ends something of the client's own"),
    # Pulsar asks for no right here, but does for the same over HTTP.
    BaseCommand.GET_SCHEMA: Rule(
        (TopicNeed(TopicOperation.GET_METADATA),),
        "Client is not authorized to get the schema",
        commands.schema_failed,
    ),
    BaseCommand.GET_OR_CREATE_SCHEMA: Rule(
        (TopicNeed(TopicOperation.PRODUCE),),
        "Client is not authorized to attach a schema",
        commands.schema_not_attached,
    ),
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: _none("it only asks who is there"),
    BaseCommand.NEW_TXN: _none("what is done in it needs its rights; Pulsar asks for none either"),
    BaseCommand.ADD_PARTITION_TO_TXN: _none(OF_OWNER),
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: _none(OF_OWNER),
    BaseCommand.END_TXN: _none(OF_OWNER),
    BaseCommand.END_TXN_ON_PARTITION: _none(BETWEEN_BROKERS),
    BaseCommand.END_TXN_ON_SUBSCRIPTION: _none(BETWEEN_BROKERS),
}
"""By command. Commands not listed are sent by brokers, or unknown, and end the connection
(:data:`arneb_pulsar.session.transitions.ACCEPTED`)."""
