"""AMQP entries made from messages that arrive as rows.

The rule: what rows have in common is worked out once: a route for each routing key, a property list
for each set of properties. So a row costs a lookup and a concatenation. The publish time stays 0,
and expiries count from it: the committer of the entries sets it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.checks import carbon_copies, check_expiration
from arneb_amqp.routing.delayed import delay_ms_of
from arneb_amqp.translation import EXCHANGE, from_strings
from arneb_amqp.wire.constants import FRAME_END_OCTET, ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.properties import encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import Field, FieldType, boolean, encode_table, long
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import ENTRY_FORMAT, HEADER, PRIORITY_SHIFT, Origin

_AMQP: Final = int(Origin.AMQP)
_CHANNEL: Final = ChannelId(1)

KEY_BYTES_MAX: Final = 255
"""Bytes of a routing key or an exchange's name: they are short strings."""

REMEMBERED_MAX: Final = 20_000
"""Routes and property lists remembered; they may be unique to each row."""


Scalar = str | bool | int | float | None
"""The types of a property."""


class RowRefused(ValueError):
    """A row that cannot become an AMQP message; the text says why."""


@dataclass(frozen=True, slots=True)
class Addressing:
    """What a message is routed by. ``headers`` is a field table; empty: no headers."""

    exchange: str
    routing_key: str
    copies: tuple[str, ...] = ()
    headers: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The common part of messages with the same properties. Compared by identity, because that
    happens for every row."""

    raw: bytes
    headers: bytes
    copies: tuple[str, ...]
    expires_ms: int
    priority: int


class EntryMaker:
    """Makes the entries of one body of rows, which refer to their ``properties`` by index."""

    def __init__(self, properties: Sequence[Mapping[str, Scalar]]) -> None:
        self._properties = properties
        self._kinds: dict[tuple[int, int, int, bool], Kind] = {}
        self._routes: dict[tuple[str, bytes], tuple[bytes, int]] = {}
        self._starts: dict[tuple[str, bytes, Kind, int], bytes] = {}
        self.expires = False
        """Whether any entry expires."""
        self.delays = False
        """Whether any entry is delayed."""

    def __repr__(self) -> str:
        return f"<EntryMaker of {len(self._kinds)} kinds by {len(self._routes)} routes>"

    def kind(self, properties: int, event_time_ms: int, priority: int, *, null: bool) -> Kind:
        """Return the kind for the properties of that index (-1 = none). Raises
        :class:`RowRefused`."""
        asked = properties, event_time_ms, priority, null
        return self._kinds.get(asked) or self._learn(asked)

    def entry(self, exchange: str, key: bytes, value: bytes, kind: Kind, deliver_ms: int) -> bytes:
        """Return one message as an entry. Raises :class:`RowRefused`."""
        if deliver_ms or not value:
            return self._entry(exchange, key, value, kind, deliver_ms)
        # Everything before the value depends only on the value's length: mostly it is cached.
        asked = exchange, key, kind, len(value)
        start = self._starts.get(asked)
        if start is None:
            whole = self._entry(exchange, key, value, kind, 0)
            start = whole[: -len(value) - len(FRAME_END_OCTET)]
            if len(self._starts) >= REMEMBERED_MAX:
                self._starts.clear()
            self._starts[asked] = start
        return start + value + FRAME_END_OCTET

    def _entry(self, exchange: str, key: bytes, value: bytes, kind: Kind, deliver_ms: int) -> bytes:
        route, hashed = self._routes.get((exchange, key)) or self._route(exchange, key)
        if deliver_ms:
            self.delays = True
        head = HEADER.pack(
            ENTRY_FORMAT, _AMQP, kind.priority << PRIORITY_SHIFT, 1, 0, deliver_ms,
            kind.expires_ms, hashed, len(route), 0,
        )  # fmt: skip
        return head + route + compose(_CHANNEL, kind.raw, value)

    def _learn(self, asked: tuple[int, int, int, bool]) -> Kind:
        index, event_time_ms, priority, null = asked
        given = self._properties[index] if index >= 0 else {}
        texts = {name: each for name, each in given.items() if isinstance(each, str)}
        texts.pop(EXCHANGE, None)  # a message's origin does not decide its target
        if priority:
            texts["amqp.priority"] = str(priority)
        try:
            made = from_strings(texts, Message(b"", event_time_ms=event_time_ms, is_null=null))
            if len(texts) < len(given):
                typed = {n: _field(each) for n, each in given.items() if not isinstance(each, str)}
                made = replace(made, headers={**(made.headers or {}), **typed})
            copies, kept = carbon_copies(made)
            expiration_ms = check_expiration(made.expiration)
            raw = encode_properties(kept)
            headers = encode_table(made.headers) if made.headers else b""
        except (AmqpError, ValueError) as error:
            raise RowRefused(f"expected properties that AMQP can carry: {error}") from error
        if made.headers and delay_ms_of(made.headers):
            raise RowRefused("expected no header x-delay: the column deliver_at_ms says when")
        if expiration_ms is not None:
            self.expires = True
        # An expiry of 0 would mean none: a time to live of 0 becomes a millisecond.
        expires_ms = 0 if expiration_ms is None else max(1, expiration_ms)
        kind = Kind(raw, headers, copies, expires_ms, made.priority or 0)
        if len(self._kinds) >= REMEMBERED_MAX:
            self._kinds.clear()
        self._kinds[asked] = kind
        return kind

    def _route(self, exchange: str, key: bytes) -> tuple[bytes, int]:
        if max(len(key), len(exchange.encode())) > KEY_BYTES_MAX:
            raise RowRefused(
                f"expected a routing key of at most {KEY_BYTES_MAX} bytes, got {len(key)}"
            )
        if len(self._routes) >= REMEMBERED_MAX:
            self._routes.clear()
        raw = join_route(exchange, key.decode("utf-8", "surrogateescape"))
        self._routes[exchange, key] = found = raw, key_hash(key)
        return found


def _field(value: Scalar) -> Field:
    if value is None:
        return Field(FieldType.VOID, None)
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, float):
        return Field(FieldType.DOUBLE, value)
    assert isinstance(value, int), "texts are no typed properties"
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"expected a number of 64 bits, got {value}")
    return long(value)
