"""Fields of commands as our own values, or the refusal that answers a bad one."""

from collections.abc import Iterable

from arneb_pulsar.names import (
    NAME_BYTES_MAX,
    ClusterTopicName,
    InvalidTopicName,
    TopicName,
    parse_namespace,
    parse_topic,
)
from arneb_pulsar.session.errors import RemoteProtocolError, RequestRefused
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import KeyValue


def text_of(value: str | bytes, field: str) -> str:
    """Return a string field; protobuf gives it as bytes when it is not UTF-8."""
    if isinstance(value, bytes):
        raise RemoteProtocolError(f"expected UTF-8 in {field}, got {value[:40]!r}")
    return value


def topic_of(value: str | bytes) -> TopicName:
    """Return the topic that a command names. Raises :class:`RequestRefused`."""
    try:
        return parse_topic(text_of(value, "topic"))
    except ClusterTopicName as error:
        # Not InvalidTopicName, after which clients continue to ask for 30 s.
        raise RequestRefused(pb.TopicNotFound, f"Namespace not found: {error}") from error
    except InvalidTopicName as error:
        raise RequestRefused(pb.InvalidTopicName, f"Invalid topic name: {error}") from error


def namespace_of(value: str | bytes) -> str:
    """Return the namespace that a command names. Raises :class:`RequestRefused`."""
    try:
        return parse_namespace(text_of(value, "namespace"))
    except InvalidTopicName as error:
        raise RequestRefused(pb.InvalidTopicName, f"Invalid namespace: {error}") from error


def subscription_of(value: str | bytes) -> str:
    """Return the subscription that a command names. Raises :class:`RequestRefused`."""
    name = text_of(value, "subscription")
    if not name.strip():
        raise RequestRefused(pb.NotAllowedError, "Empty subscription name")
    if len(name.encode()) > NAME_BYTES_MAX:
        text = f"Subscription name longer than {NAME_BYTES_MAX} bytes"
        raise RequestRefused(pb.NotAllowedError, text)
    return name


def properties_of(pairs: Iterable[KeyValue]) -> dict[str, str]:
    """Return the key-value pairs of a command."""
    return {text_of(pair.key, "key"): text_of(pair.value, "value") for pair in pairs}
