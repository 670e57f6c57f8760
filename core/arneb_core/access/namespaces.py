"""Namespaces: which one a vhost gets when it is created.

The rule: the name only proposes; the relation is stored with the vhost, one to one. Different names
can propose the same namespace (``v`` and ``public/v``), and then the later vhost is refused;
encoded names never clash with plain ones. Only characters that Pulsar allows in names are used, so
Pulsar clients can reach every vhost.

==============  =====================
vhost           proposed namespace
==============  =====================
``/``           ``public/default``
``v``           ``public/v``
``t/n``         ``t/n``
``a b``         ``public/a=20b``
==============  =====================
"""

from collections.abc import Iterable
from typing import Final

DEFAULT_VHOST: Final = "/"
DEFAULT_NAMESPACE: Final = "public/default"
DEFAULT_TENANT: Final = "public"

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:")
"""Octets that stay as they are: all that Pulsar allows but ``=``, which begins an encoded one."""

_FORMERLY_ENCODED: Final = frozenset(b"/%?#\\\x7f" + bytes(range(0x21)))
_TOPICS: Final = "persistent://"


def proposed_namespace(vhost: str) -> str:
    """Return ``tenant/namespace`` for a vhost of that name."""
    if vhost == DEFAULT_VHOST:
        return DEFAULT_NAMESPACE
    tenant, slash, name = vhost.partition("/")
    if slash and tenant and name:
        return f"{_encode(tenant)}/{_encode(name)}"
    return f"{DEFAULT_TENANT}/{_encode(vhost)}"


def carried_namespace(vhost: str, topics: Iterable[str]) -> str:
    """Return the namespace in a store older than stored relations: that of the vhost's topics."""
    proposed, former = proposed_namespace(vhost), _former_namespace(vhost)
    if former != proposed and any(each.startswith(f"{_TOPICS}{former}/") for each in topics):
        return former
    return proposed


def _encode(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return "".join(chr(octet) if octet in _PLAIN else f"={octet:02X}" for octet in raw)


def _former_namespace(vhost: str) -> str:
    """Return the namespace as before names were encoded as above."""
    if vhost == DEFAULT_VHOST:
        return DEFAULT_NAMESPACE
    tenant, slash, name = vhost.partition("/")
    if slash and tenant and name:
        return f"{_formerly(tenant)}/{_formerly(name)}"
    return f"{DEFAULT_TENANT}/{_formerly(vhost)}"


def _formerly(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return b"".join(
        b"%%%02X" % octet if octet in _FORMERLY_ENCODED else bytes((octet,)) for octet in raw
    ).decode("utf-8", "surrogateescape")
