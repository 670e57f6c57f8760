"""Names: how a queue is called in the core, and back.

The rule: a queue is the topic ``<vhost's namespace>/<queue>``; which namespace that is, is stored
with the vhost (:mod:`arneb_core.access.namespaces`). Only what a Pulsar topic name cannot hold is
percent-encoded, so that ordinary names look the same through both frontends.
"""

from typing import Final
from urllib.parse import unquote_to_bytes

SCHEME: Final = "persistent://"
"""Every topic in the log is persistent in Pulsar's words; so are the names of transient queues."""

SUBSCRIPTION: Final = "amqp"
"""The subscription that all AMQP consumers of a queue share; Pulsar's may join them."""

_ENCODED: Final = frozenset(b"/%?#\\\x7f" + bytes(range(0x21)))
"""The octets that are percent-encoded: separators, the sign itself, blanks and control codes."""


def topic_of(namespace: str, queue: str) -> str:
    """The topic of ``queue``."""
    return f"{SCHEME}{namespace}/{encode(queue)}"


def queue_of(namespace: str, topic: str) -> str | None:
    """The queue whose topic has that name; None when it is not in ``namespace``."""
    prefix = f"{SCHEME}{namespace}/"
    return decode(topic[len(prefix) :]) if topic.startswith(prefix) else None


def encode(name: str) -> str:
    """``name`` without the characters that a topic name cannot hold."""
    raw = name.encode("utf-8", "surrogateescape")
    if _ENCODED.isdisjoint(raw):
        return name
    return b"".join(
        b"%%%02X" % octet if octet in _ENCODED else bytes((octet,)) for octet in raw
    ).decode("utf-8", "surrogateescape")


def decode(name: str) -> str:
    """The inverse of :func:`encode`."""
    if "%" not in name:
        return name
    raw = unquote_to_bytes(name.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")
