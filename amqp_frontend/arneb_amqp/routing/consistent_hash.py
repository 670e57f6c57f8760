"""The consistent hash exchange: messages with the same key go to the same one of its bindings.

A binding's routing key is its weight. What is hashed is the message's routing key, or with
the argument ``hash-header`` that header, or with ``hash-property`` one of three properties. The
rule: when a binding comes, only its share of the keys moves, and all of that to it.

Sources: the README and ``rabbit_exchange_type_consistent_hash`` of RabbitMQ's plugin (errors,
weights as numbers of buckets); Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash
Algorithm" (2014). Which queue a key goes to differs from RabbitMQ, which hashes Erlang terms.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import Headers
from arneb_amqp.wire.erlang import render_binary
from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.tables import Field, FieldType, longstr, lookup_text
from arneb_core.hashing import murmur3_32

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")

PROPERTY_PREFIX: Final = "\0property/"
"""Before the names under which an exchange sees properties among the headers; whatever a client
sends under such a name is overlaid."""

LCG: Final = 2862933555777941757
MASK_64: Final = (1 << 64) - 1


def seen_by_exchanges(properties: Properties) -> Mapping[str, Field]:
    """The headers, and the properties that an exchange may hash."""
    seen = dict(properties.headers or {})
    for name in PROPERTIES:
        value = getattr(properties, name)
        seen.pop(PROPERTY_PREFIX + name, None)
        if value is not None:
            seen[PROPERTY_PREFIX + name] = longstr(str(value))
    return seen


class ConsistentHashIndex:
    """Bindings in the order of their coming, each with so many buckets as it weighs.

    Invariant: ``_ends[i]`` buckets belong to the first *i* + 1 bindings.
    """

    def __init__(self, hashed_header: str | None) -> None:
        self._hashed_header = hashed_header
        self._bindings: list[Binding] = []
        self._ends: list[int] = []

    def add(self, binding: Binding) -> None:
        self._bindings.append(binding)
        self._count()

    def remove(self, binding: Binding) -> None:
        self._bindings.remove(binding)
        self._count()

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target]:
        if not self._bindings:
            return
        bucket = jump(murmur3_32(self._hashed(routing_keys, headers)), self._ends[-1])
        yield self._bindings[bisect_right(self._ends, bucket)].target

    def _hashed(self, routing_keys: Sequence[str], headers: Headers) -> bytes:
        if self._hashed_header is None:
            return routing_keys[0].encode("utf-8", "surrogateescape")
        field = headers.get(self._hashed_header)
        if field is None:
            return b""
        return field.value if isinstance(field.value, bytes) else repr(field.value).encode()

    def _count(self) -> None:
        self._ends = list(accumulate(int(each.routing_key) for each in self._bindings))


class ConsistentHash:
    """The type ``x-consistent-hash``."""

    name = "x-consistent-hash"
    reads_headers = True

    def check(self, exchange: Exchange) -> None:
        """Raise 406 for arguments that exclude each other or mean nothing."""
        wanted = exchange.arguments.get(HASH_PROPERTY)
        if wanted is None:
            return
        if HASH_HEADER in exchange.arguments:
            raise precondition_failed("hash-header and hash-property are mutually exclusive")
        text = wanted.text if wanted.type is FieldType.LONGSTR else str(wanted.value)
        if text not in PROPERTIES:
            raise precondition_failed(f"Unsupported property: {text}")

    def check_binding(self, binding: Binding) -> None:
        """Raise 406 unless the routing key is a weight."""
        key = binding.routing_key
        digits = key[1:] if key[:1] in ("+", "-") else key
        if not (digits.isascii() and digits.isdecimal()):
            shown = render_binary(key.encode("utf-8", "surrogateescape"))
            raise precondition_failed(f"The binding key must be an integer: {shown}")
        if int(key) < 1:
            raise precondition_failed("The binding key must be greater than 0")

    def index(self, exchange: Exchange) -> ConsistentHashIndex:
        """An empty index."""
        header = lookup_text(exchange.arguments, HASH_HEADER)
        named = lookup_text(exchange.arguments, HASH_PROPERTY)
        if named is not None:
            header = PROPERTY_PREFIX + named
        return ConsistentHashIndex(header)


def jump(key: int, buckets: int) -> int:
    """The bucket of ``key``, the same for every number of buckets until it moves to a new one."""
    # The hash has 32 bits; spread, so that the generator starts far apart for close keys.
    state = key * 0x9E3779B97F4A7C15 & MASK_64
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        state = (state * LCG + 1) & MASK_64
        following = int((bucket + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return bucket
