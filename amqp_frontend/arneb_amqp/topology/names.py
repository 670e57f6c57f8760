"""Names: a queue's name in the core, and back.

The rule: a queue is the topic ``<vhost's namespace>/<queue>``; the namespace is stored with the
vhost (:mod:`arneb_core.access.namespaces`). Only what a Pulsar topic name cannot contain is
percent-encoded, so ordinary names look the same in both frontends.
"""

from typing import Final
from urllib.parse import unquote_to_bytes

SCHEME: Final = "persistent://"
"""In Pulsar's words every topic in the log is persistent; so are the names of transient queues."""

SUBSCRIPTION: Final = "amqp"
"""The subscription that all AMQP consumers of a queue share; Pulsar's may join it."""

_ENCODED: Final = frozenset(b"/%?#\\\x7f" + bytes(range(0x21)))
"""The octets that are percent-encoded: separators, the sign itself, blanks and control codes."""


def topic_of(namespace: str, queue: str) -> str:
    """Return the topic name of ``queue``."""
    return f"{SCHEME}{namespace}/{encode(queue)}"


def queue_of(namespace: str, topic: str) -> str | None:
    """Return the queue whose topic has that name; None when it is not in ``namespace``."""
    prefix = f"{SCHEME}{namespace}/"
    return decode(topic[len(prefix) :]) if topic.startswith(prefix) else None


def encode(name: str) -> str:
    """Return ``name`` with characters that a topic name cannot contain encoded."""
    raw = name.encode("utf-8", "surrogateescape")
    if _ENCODED.isdisjoint(raw):
        return name
    return b"".join(
        b"%%%02X" % octet if octet in _ENCODED else bytes((octet,)) for octet in raw
    ).decode("utf-8", "surrogateescape")


def decode(name: str) -> str:
    """Decode a name encoded by :func:`encode`."""
    if "%" not in name:
        return name
    raw = unquote_to_bytes(name.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")
