"""Names: how a vhost and a queue are called in the core, and back.

The rule: a queue is the topic ``<vhost's namespace>/<queue>``. Only what a Pulsar topic name
cannot hold is percent-encoded, so that ordinary names look the same through both frontends.

==============  =====================
vhost           namespace
==============  =====================
``/``           ``public/default``
``v``           ``public/v``
``t/n``         ``t/n``
==============  =====================
"""

from typing import Final
from urllib.parse import unquote_to_bytes

SCHEME: Final = "persistent://"
"""Every topic in the log is persistent in Pulsar's words; so are the names of transient queues."""

SUBSCRIPTION: Final = "amqp"
"""The subscription that all AMQP consumers of a queue share; Pulsar's may join them."""

DEFAULT_VHOST: Final = "/"
DEFAULT_NAMESPACE: Final = "public/default"
DEFAULT_TENANT: Final = "public"

_ENCODED: Final = frozenset(b"/%?#\\\x7f" + bytes(range(0x21)))
"""The octets that are percent-encoded: separators, the sign itself, blanks and control codes."""


def namespace_of(vhost: str) -> str:
    """``tenant/namespace`` of ``vhost``."""
    if vhost == DEFAULT_VHOST:
        return DEFAULT_NAMESPACE
    tenant, slash, name = vhost.partition("/")
    if slash and tenant and name:
        return f"{encode(tenant)}/{encode(name)}"
    return f"{DEFAULT_TENANT}/{encode(vhost)}"


def topic_of(vhost: str, queue: str) -> str:
    """The topic of ``queue``."""
    return f"{SCHEME}{namespace_of(vhost)}/{encode(queue)}"


def queue_of(vhost: str, topic: str) -> str | None:
    """The queue whose topic has that name; None when it is not in ``vhost``."""
    prefix = f"{SCHEME}{namespace_of(vhost)}/"
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
