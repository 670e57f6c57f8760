"""The consistent hash exchange: messages with the same key go to the same binding.

A binding's routing key is its weight. The message's routing key is hashed, or with the argument
``hash-header`` that header, or with ``hash-property`` one of three properties. The rule: a new
binding takes over its share of the keys, and no other key moves.

Sources: the README and ``rabbit_exchange_type_consistent_hash`` of RabbitMQ's plugin (errors,
weights as numbers of buckets); Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash
Algorithm" (2014). Which queue a key goes to differs from RabbitMQ, which hashes Erlang terms.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import Headers
from arneb_amqp.wire.erlang import render_binary
from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.tables import Field, FieldType, longstr, lookup_text
from arneb_core.api.encoding.hashing import murmur3_32

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")

PROPERTY_PREFIX: Final = "\0property/"
"""The prefix under which an exchange sees properties among the headers; it overrides whatever a
client sends under such a name."""

LCG: Final = 2862933555777941757
MASK_64: Final = (1 << 64) - 1


def seen_by_exchanges(properties: Properties) -> Mapping[str, Field]:
    """Return the headers and the properties that an exchange may hash."""
    seen = dict(properties.headers or {})
    for name in PROPERTIES:
        value = getattr(properties, name)
        seen.pop(PROPERTY_PREFIX + name, None)
        if value is not None:
            seen[PROPERTY_PREFIX + name] = longstr(str(value))
    return seen


class ConsistentHashIndex:
    """Bindings in order of arrival, each with as many buckets as its weight.

    They occupy places numbered from 1; a removed binding leaves its place empty until half of the
    places are. The buckets are counted in a binary indexed tree (Fenwick, "A New Data Structure for
    Cumulative Frequency Tables", 1994), so adding or removing a binding and matching a message take
    logarithmic time.

    Invariants: ``_tree[i]`` is the weight of the ``i & -i`` places up to *i*; an empty place weighs
    nothing; ``_weight`` is the total weight.
    """

    def __init__(self, hashed_header: str | None) -> None:
        self._hashed_header = hashed_header
        self._places: dict[Binding, int] = {}
        self._bindings: list[Binding | None] = [None]
        self._tree: list[int] = [0]
        self._weight = 0

    def __repr__(self) -> str:
        return f"<ConsistentHashIndex of {len(self._places)} bindings, {self._weight} buckets>"

    def add(self, binding: Binding) -> None:
        place = len(self._bindings)
        weight = int(binding.routing_key)
        self._places[binding] = place
        self._bindings.append(binding)
        below = place - (place & -place)
        at, sum_ = place - 1, weight
        while at > below:
            sum_ += self._tree[at]
            at -= at & -at
        self._tree.append(sum_)
        self._weight += weight

    def remove(self, binding: Binding) -> None:
        place = self._places.pop(binding)
        weight = int(binding.routing_key)
        self._bindings[place] = None
        self._weight -= weight
        ends = len(self._tree)
        while place < ends:
            self._tree[place] -= weight
            place += place & -place
        if len(self._places) < len(self._bindings) // 2:
            self._close_up()

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target]:
        if not self._places:
            return
        bucket = jump(murmur3_32(self._hashed(routing_keys, headers)), self._weight)
        binding = self._bindings[self._place_of(bucket)]
        assert binding is not None, "an empty place has no bucket"
        yield binding.target

    def _place_of(self, bucket: int) -> int:
        """Return the place that has this bucket."""
        place, step = 0, 1 << (len(self._tree).bit_length() - 1)
        while step:
            following = place + step
            if following < len(self._tree) and self._tree[following] <= bucket:
                place = following
                bucket -= self._tree[following]
            step >>= 1
        return place + 1

    def _close_up(self) -> None:
        """Remove the empty places."""
        kept = list(self._places)
        self._places, self._bindings, self._tree, self._weight = {}, [None], [0], 0
        for binding in kept:
            self.add(binding)

    def _hashed(self, routing_keys: Sequence[str], headers: Headers) -> bytes:
        if self._hashed_header is None:
            return routing_keys[0].encode("utf-8", "surrogateescape")
        field = headers.get(self._hashed_header)
        if field is None:
            return b""
        return field.value if isinstance(field.value, bytes) else repr(field.value).encode()


class ConsistentHash:
    """The type ``x-consistent-hash``."""

    name = "x-consistent-hash"

    def reads_headers(self, exchange: Exchange) -> bool:
        """Whether a header or a property is hashed in place of the routing key."""
        return _hashed_header(exchange) is not None

    def check(self, exchange: Exchange) -> None:
        """Raise 406 for arguments that are invalid or exclude each other."""
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
        """Return an empty index."""
        return ConsistentHashIndex(_hashed_header(exchange))


def _hashed_header(exchange: Exchange) -> str | None:
    """Return the name of the hashed header, or of the property as seen among the headers."""
    named = lookup_text(exchange.arguments, HASH_PROPERTY)
    if named is not None:
        return PROPERTY_PREFIX + named
    return lookup_text(exchange.arguments, HASH_HEADER)


def jump(key: int, buckets: int) -> int:
    """Return the bucket of ``key``; as ``buckets`` grows, a key stays or moves to a new bucket."""
    # The 32-bit hash is spread so that the generator's states for close keys are far apart.
    state = key * 0x9E3779B97F4A7C15 & MASK_64
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        state = (state * LCG + 1) & MASK_64
        following = int((bucket + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return bucket
