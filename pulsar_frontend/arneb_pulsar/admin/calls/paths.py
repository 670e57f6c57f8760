"""Paths: the namespaces and topics that calls name, whether they exist or not."""

from arneb_pulsar.admin.calls.requests import AdminError, AdminRequest
from arneb_pulsar.names import (
    PERSISTENT,
    InvalidTopicName,
    TopicName,
    parse_namespace,
    parse_topic,
)


def namespace_in(request: AdminRequest) -> str:
    """Return the namespace in a path. Raises :class:`AdminError`."""
    try:
        return parse_namespace(f"{request.names['tenant']}/{request.names['namespace']}")
    except InvalidTopicName as error:
        raise AdminError(412, f"Namespace name is not valid: {error}") from error


def topic_in(request: AdminRequest) -> TopicName:
    """Return the topic in a path. Raises :class:`AdminError`."""
    names = request.names
    try:
        namespace = parse_namespace(f"{names['tenant']}/{names['namespace']}")
        return parse_topic(f"{names.get('domain', PERSISTENT)}://{namespace}/{names['topic']}")
    except InvalidTopicName as error:
        raise AdminError(412, f"Topic name is not valid: {error}") from error


def persistent_topic_in(request: AdminRequest) -> TopicName:
    """Return the topic in a path, which must be persistent. Raises :class:`AdminError`, before
    anything is said of whether the topic exists."""
    topic = topic_in(request)
    if not topic.is_persistent:
        raise AdminError(406, "Need to provide a persistent topic name")
    return topic
