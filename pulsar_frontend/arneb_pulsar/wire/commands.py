"""Commands: reading those of clients, and building the broker's.

Unasked, only commands that Pulsar's C++ client knows are sent, since it closes the connection on
any other, as do the Python and Node clients, which are built on it. Each builder returns a whole
frame.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.errors import CommandError
from arneb_pulsar.wire.frame import simple_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandAuthChallenge,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandConsumerStatsResponse,
    CommandGetLastMessageIdResponse,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandPong,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSuccess,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    FeatureFlags,
    MessageIdData,
    Schema,
    ServerError,
)
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandError as ErrorCommand,
)

PROTOCOL_VERSION: Final = 21

NO_REQUEST: Final = (1 << 64) - 1
"""The request id of what the broker sends unasked."""

FIELD_OF: Final = {
    field.number: field.name for field in BaseCommand.DESCRIPTOR.fields if field.name != "type"
}
"""The field that holds the command of a type."""


def parse_command(data: bytes) -> BaseCommand:
    """Return the command in ``data``, with all required fields and the field of its type set.

    Raises :class:`CommandError`.
    """
    try:
        command = BaseCommand.FromString(data)
    except DecodeError as error:
        raise CommandError(f"expected a command, got {len(data)} other bytes") from error
    if not command.IsInitialized():
        raise CommandError("expected a command with all its required fields")
    field = FIELD_OF[command.type]
    if not command.HasField(field):
        raise CommandError(f"expected {field} in a command of that type, got none")
    return command


def connected(server_version: str, protocol_version: int, message_bytes_max: int) -> bytes:
    """The answer to CONNECT. With feature flags left unset, clients use what always works."""
    flags = FeatureFlags(
        supports_topic_watchers=True,
        supports_get_partitioned_metadata_without_auto_creation=True,
    )
    reply = CommandConnected(
        feature_flags=flags,
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=message_bytes_max,
    )
    return _frame(BaseCommand(type=BaseCommand.CONNECTED, connected=reply))


def auth_challenge(server_version: str, protocol_version: int) -> bytes:
    """Ask for another proof of identity, with the bytes that Pulsar's brokers send."""
    challenge = AuthData(auth_data=b"PulsarAuthRefresh")
    command = CommandAuthChallenge(
        server_version=server_version, challenge=challenge, protocol_version=protocol_version
    )
    return _frame(BaseCommand(type=BaseCommand.AUTH_CHALLENGE, authChallenge=command))


def success(request_id: int) -> bytes:
    reply = CommandSuccess(request_id=request_id)
    return _frame(BaseCommand(type=BaseCommand.SUCCESS, success=reply))


def error(request_id: int, code: ServerError, text: str) -> bytes:
    reply = ErrorCommand(request_id=request_id, error=code, message=text)
    return _frame(BaseCommand(type=BaseCommand.ERROR, error=reply))


def partitions(request_id: int, count: int) -> bytes:
    """The answer to PARTITIONED_METADATA; 0 = not partitioned."""
    reply = CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=CommandPartitionedTopicMetadataResponse.Success,
        partitions=count,
    )
    return _partitions(reply)


def partitions_failed(request_id: int, code: ServerError, text: str) -> bytes:
    reply = CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=CommandPartitionedTopicMetadataResponse.Failed,
        error=code,
        message=text,
    )
    return _partitions(reply)


def _partitions(reply: CommandPartitionedTopicMetadataResponse) -> bytes:
    kind = BaseCommand.PARTITIONED_METADATA_RESPONSE
    return _frame(BaseCommand(type=kind, partitionMetadataResponse=reply))


def lookup_connect(request_id: int, service_url: str, *, same_way: bool = False) -> bytes:
    """The answer to LOOKUP: the broker that has the topic. A TLS URL is told as such. ``same_way``:
    the client is to connect by the route it uses now, whatever the broker's name."""
    reply = CommandLookupTopicResponse(
        request_id=request_id,
        response=CommandLookupTopicResponse.Connect,
        brokerServiceUrl=service_url,
        authoritative=True,
        proxy_through_service_url=same_way or None,
    )
    if service_url.startswith("pulsar+ssl:"):
        reply.ClearField("brokerServiceUrl")
        reply.brokerServiceUrlTls = service_url
    return _frame(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=reply))


def lookup_failed(request_id: int, code: ServerError, text: str) -> bytes:
    reply = CommandLookupTopicResponse(
        request_id=request_id,
        response=CommandLookupTopicResponse.Failed,
        error=code,
        message=text,
    )
    return _frame(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=reply))


def topics_of_namespace(
    request_id: int, topics: Sequence[str], topics_hash: str, *, filtered: bool = False
) -> bytes:
    reply = CommandGetTopicsOfNamespaceResponse(
        request_id=request_id, topics=topics, topics_hash=topics_hash
    )
    if filtered:
        reply.filtered = True
    return _topics(reply)


def topics_watched(
    request_id: int, watcher_id: int, topics: Sequence[str], topics_hash: str
) -> bytes:
    """The answer to WATCH_TOPIC_LIST; C++ clients do not know it, and never ask."""
    reply = CommandWatchTopicListSuccess(
        request_id=request_id, watcher_id=watcher_id, topic=topics, topics_hash=topics_hash
    )
    kind = BaseCommand.WATCH_TOPIC_LIST_SUCCESS
    return _frame(BaseCommand(type=kind, watchTopicListSuccess=reply))


def topics_changed(
    watcher_id: int, new: Sequence[str], gone: Sequence[str], topics_hash: str
) -> bytes:
    """The news for a watcher, sent unasked."""
    update = CommandWatchTopicUpdate(
        watcher_id=watcher_id, new_topics=new, deleted_topics=gone, topics_hash=topics_hash
    )
    return _frame(BaseCommand(type=BaseCommand.WATCH_TOPIC_UPDATE, watchTopicUpdate=update))


def topics_unchanged(request_id: int, topics_hash: str) -> bytes:
    """The answer to a client that has the list already, by its hash."""
    reply = CommandGetTopicsOfNamespaceResponse(
        request_id=request_id, topics_hash=topics_hash, changed=False
    )
    return _topics(reply)


def _topics(reply: CommandGetTopicsOfNamespaceResponse) -> bytes:
    kind = BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE
    return _frame(BaseCommand(type=kind, getTopicsOfNamespaceResponse=reply))


def producer_success(
    request_id: int,
    name: str,
    last_sequence_id: int = -1,
    *,
    epoch: int | None = None,
    ready: bool = True,
    schema_version: bytes = b"",
) -> bytes:
    """The answer to PRODUCER; not ``ready`` = it is queued, and another answer follows."""
    reply = CommandProducerSuccess(
        request_id=request_id,
        producer_name=name,
        last_sequence_id=last_sequence_id,
        # To Java's client a missing version means a broken connection.
        schema_version=schema_version,
    )
    if epoch is not None:
        reply.topic_epoch = epoch
    if not ready:
        reply.producer_ready = False
    return _frame(BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=reply))


def send_error(producer_id: int, sequence_id: int, code: ServerError, text: str) -> bytes:
    reply = CommandSendError(
        producer_id=producer_id, sequence_id=sequence_id, error=code, message=text
    )
    return _frame(BaseCommand(type=BaseCommand.SEND_ERROR, send_error=reply))


def close_producer(producer_id: int, url: str = "", url_tls: str = "") -> bytes:
    """The broker's own CLOSE_PRODUCER: the client is to look the topic up again and reconnect, or
    to connect to the URL given, which older clients ignore."""
    command = CommandCloseProducer(
        producer_id=producer_id,
        request_id=NO_REQUEST,
        assignedBrokerServiceUrl=url or None,
        assignedBrokerServiceUrlTls=url_tls or None,
    )
    return _frame(BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=command))


def close_consumer(consumer_id: int, url: str = "", url_tls: str = "") -> bytes:
    """The broker's own CLOSE_CONSUMER: the client is to subscribe again, or at the URL given."""
    command = CommandCloseConsumer(
        consumer_id=consumer_id,
        request_id=NO_REQUEST,
        assignedBrokerServiceUrl=url or None,
        assignedBrokerServiceUrlTls=url_tls or None,
    )
    return _frame(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=command))


def active_consumer_change(consumer_id: int, is_active: bool) -> bytes:
    """The news that a failover consumer gets everything from now on, or nothing."""
    change = CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active)
    return _frame(
        BaseCommand(type=BaseCommand.ACTIVE_CONSUMER_CHANGE, active_consumer_change=change)
    )


def reached_end_of_topic(consumer_id: int) -> bytes:
    """The news that everything is acknowledged and nothing more will be appended."""
    end = CommandReachedEndOfTopic(consumer_id=consumer_id)
    return _frame(BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC, reachedEndOfTopic=end))


def ack_response(
    consumer_id: int, request_id: int, code: ServerError | None = None, text: str = ""
) -> bytes:
    """The receipt of an acknowledgement, or why there is none."""
    reply = CommandAckResponse(consumer_id=consumer_id, request_id=request_id)
    if code is not None:
        reply.error = code
        reply.message = text
    return _frame(BaseCommand(type=BaseCommand.ACK_RESPONSE, ackResponse=reply))


def last_message_id(request_id: int, last: MessageIdData, mark_delete: MessageIdData) -> bytes:
    """The answer to GET_LAST_MESSAGE_ID."""
    reply = CommandGetLastMessageIdResponse(
        request_id=request_id, last_message_id=last, consumer_mark_delete_position=mark_delete
    )
    kind = BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE
    return _frame(BaseCommand(type=kind, getLastMessageIdResponse=reply))


def schema_failed(request_id: int, code: ServerError, text: str) -> bytes:
    reply = CommandGetSchemaResponse(request_id=request_id, error_code=code, error_message=text)
    return _frame(BaseCommand(type=BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=reply))


def schema_found(request_id: int, schema: Schema, version: bytes) -> bytes:
    reply = CommandGetSchemaResponse(request_id=request_id, schema=schema, schema_version=version)
    return _frame(BaseCommand(type=BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=reply))


def schema_attached(request_id: int, version: bytes) -> bytes:
    return _schema_attached(
        CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=version)
    )


def schema_not_attached(request_id: int, code: ServerError, text: str) -> bytes:
    return _schema_attached(
        CommandGetOrCreateSchemaResponse(request_id=request_id, error_code=code, error_message=text)
    )


def _schema_attached(reply: CommandGetOrCreateSchemaResponse) -> bytes:
    # The C++ client does not know it, and never asks.
    kind = BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE
    return _frame(BaseCommand(type=kind, getOrCreateSchemaResponse=reply))


def transaction_response(
    kind: int,
    request_id: int,
    transaction: tuple[int, int] | None,
    failure: tuple[ServerError, str] | None,
) -> bytes:
    """The answer of type ``kind`` to a command about a transaction, given by its most and least
    bits. C++ clients do not know it, and never ask."""
    command = BaseCommand(type=BaseCommand.Type.ValueType(kind))
    reply = getattr(command, FIELD_OF[kind])
    reply.request_id = request_id
    if transaction is not None:
        reply.txnid_most_bits, reply.txnid_least_bits = transaction
    if failure is not None:
        reply.error, reply.message = failure
    return _frame(command)


def consumer_stats(reply: CommandConsumerStatsResponse) -> bytes:
    kind = BaseCommand.CONSUMER_STATS_RESPONSE
    return _frame(BaseCommand(type=kind, consumerStatsResponse=reply))


def _frame(command: BaseCommand) -> bytes:
    return simple_frame(command.SerializeToString())


PING: Final = _frame(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
PONG: Final = _frame(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
