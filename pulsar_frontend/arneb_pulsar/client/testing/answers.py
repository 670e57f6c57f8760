"""The fake broker's answers to questions about its topics.

The rule: a question changes nothing, except that it may create the topic it asks for.
"""

from typing import Any, Protocol

from google.protobuf.message import Message as Command

from arneb_pulsar.client.testing.topic import FakeTopic
from arneb_pulsar.client.testing.transactions import FakeTransactions
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandPong,
    ServerError,
)


class Watcher(Protocol):
    """An object that is told of new topics."""

    def on_made(self, topic: str) -> None:
        """A topic was made."""


class Broker(Protocol):
    """The broker, as its sessions see it."""

    pattern_characters_max: int
    watchers: list[Watcher]

    def topic(self, name: str) -> FakeTopic: ...

    def partitions(self, name: str) -> int: ...

    def topics(self, namespace: str, mode: int) -> list[str]: ...

    def owner(self, name: str) -> str: ...

    def now_ms(self) -> int: ...

    def is_doubled(self) -> bool: ...

    def is_not_ready(self) -> bool: ...

    def expire(self) -> None: ...

    @property
    def transactions(self) -> FakeTransactions: ...


def answer_of(broker: Broker, url: str, command: Any) -> Command | None:
    """Answer a question that came to the broker at ``url``; return None for any other command."""
    match command:
        case CommandPing():
            return CommandPong()
        case CommandPartitionedTopicMetadata():
            return CommandPartitionedTopicMetadataResponse(
                request_id=command.request_id,
                response=CommandPartitionedTopicMetadataResponse.Success,
                partitions=broker.partitions(command.topic),
            )
        case CommandLookupTopic():
            return _place(broker.owner(command.topic), url, command.request_id)
        case CommandGetTopicsOfNamespace():
            topics = broker.topics(command.namespace, command.mode)
            return CommandGetTopicsOfNamespaceResponse(request_id=command.request_id, topics=topics)
        case CommandGetSchema():
            return _schema(broker.topic(command.topic), command)
    return None


def _place(owner: str, url: str, request_id: int) -> Command:
    kind = CommandLookupTopicResponse.Redirect
    if owner == url:
        kind = CommandLookupTopicResponse.Connect
    return CommandLookupTopicResponse(
        request_id=request_id, response=kind, brokerServiceUrl=owner, authoritative=True
    )


def _schema(topic: FakeTopic, command: CommandGetSchema) -> Command:
    number = len(topic.schemas) - 1
    if command.schema_version:
        number = int.from_bytes(command.schema_version, "big")
    if not 0 <= number < len(topic.schemas):
        return CommandGetSchemaResponse(
            request_id=command.request_id,
            error_code=ServerError.TopicNotFound,
            error_message=f"no schema of {topic.name} in version {number}",
        )
    return CommandGetSchemaResponse(
        request_id=command.request_id,
        schema=topic.schemas[number],
        schema_version=number.to_bytes(8, "big"),
    )
