"""A client's commands: their frames, their responses, and the errors in those.

The rule: commands are built by those who send them; here they only get type and frame. The number
of a command's type is the number of its field in ``BaseCommand``.
"""

from typing import Final

from google.protobuf.message import Message as Command

from arneb_pulsar.client.errors import ServerRefused, refusal
from arneb_pulsar.wire.frame import simple_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)
from arneb_pulsar.wire.varint import varint

NUMBER_OF: Final = {
    field.message_type.name: field.number
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
}
"""The type number of each command."""

HEADS: Final = {
    name: b"\x08" + varint(number) + varint(number << 3 | 2) for name, number in NUMBER_OF.items()
}
"""The bytes before each command's length: its type, and the tag of its field."""


ANSWERS: Final = {
    "CommandAck": "CommandAckResponse",
    "CommandAddPartitionToTxn": "CommandAddPartitionToTxnResponse",
    "CommandAddSubscriptionToTxn": "CommandAddSubscriptionToTxnResponse",
    "CommandCloseConsumer": "CommandSuccess",
    "CommandCloseProducer": "CommandSuccess",
    "CommandEndTxn": "CommandEndTxnResponse",
    "CommandGetLastMessageId": "CommandGetLastMessageIdResponse",
    "CommandGetSchema": "CommandGetSchemaResponse",
    "CommandGetTopicsOfNamespace": "CommandGetTopicsOfNamespaceResponse",
    "CommandLookupTopic": "CommandLookupTopicResponse",
    "CommandNewTxn": "CommandNewTxnResponse",
    "CommandPartitionedTopicMetadata": "CommandPartitionedTopicMetadataResponse",
    "CommandProducer": "CommandProducerSuccess",
    "CommandSeek": "CommandSuccess",
    "CommandSubscribe": "CommandSuccess",
    "CommandTcClientConnectRequest": "CommandTcClientConnectResponse",
    "CommandUnsubscribe": "CommandSuccess",
    "CommandWatchTopicList": "CommandWatchTopicListSuccess",
    "CommandWatchTopicListClose": "CommandSuccess",
}
"""The response to each command that has one, unless it is ERROR."""


def command_of(command: Command) -> bytes:
    """Return the bytes of a ``BaseCommand`` that holds ``command``."""
    data = command.SerializeToString()
    return HEADS[command.DESCRIPTOR.name] + varint(len(data)) + data


def frame_of(command: Command) -> bytes:
    """Return the frame of a command without a payload."""
    return simple_frame(command_of(command))


def refusal_in(reply: Command, where: str) -> ServerRefused | None:
    """Return the error in a response; None if it has none."""
    match reply:
        case CommandLookupTopicResponse():
            failed = reply.response == CommandLookupTopicResponse.Failed
            return refusal(reply.error, reply.message, where) if failed else None
        case CommandPartitionedTopicMetadataResponse():
            failed = reply.response == CommandPartitionedTopicMetadataResponse.Failed
            return refusal(reply.error, reply.message, where) if failed else None
    fields = reply.DESCRIPTOR.fields_by_name
    for name, text in (("error", "message"), ("error_code", "error_message")):
        if name in fields and reply.HasField(name):
            return refusal(getattr(reply, name), getattr(reply, text), where)
    return None
