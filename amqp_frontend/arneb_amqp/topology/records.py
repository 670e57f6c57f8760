"""Records: durable queues, exchanges and bindings as the core's frontend metadata.

The rule: a value is self-contained JSON; its key only has to be unique and short enough for the
store, so long names are cut there and distinguished by a digest.

=========================================  ==================================================
key                                        value
=========================================  ==================================================
``amqp/queue/<vhost>/<queue>``             vhost, name, auto_delete, arguments, ttl
``amqp/exchange/<vhost>/<exchange>``       vhost, name, type, auto_delete, internal, arguments
``amqp/binding/<vhost>/<digest>``          vhost, source, kind, destination, routing_key, arguments
=========================================  ==================================================

An argument is ``{"name": ["type", value]}`` with RabbitMQ's name of the type. ``ttl`` is there if a
policy has changed it: pairs of the time until which a time to live applied (null: it still does)
and that time to live (null: none).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.topology.names import encode
from arneb_amqp.wire.tables import Decimal, Field, FieldType, FieldValue, Table
from arneb_core.api.entries.expiry import ChangedTtl

PREFIX: Final = "amqp/"
QUEUES: Final = "amqp/queue/"
EXCHANGES: Final = "amqp/exchange/"
BINDINGS: Final = "amqp/binding/"

KEY_PART_BYTES_MAX: Final = 180
"""Bytes of one part of a key: LMDB keys hold 511 bytes; a key has two parts and a prefix."""


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A durable queue as declared."""

    vhost: str
    name: str
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    ttl: ChangedTtl | None = None
    """The time to live of its messages, if it is, or ever was, not the declared one."""

    @property
    def key(self) -> str:
        """The record's key."""
        return f"{QUEUES}{_part(self.vhost)}/{_part(self.name)}"

    def encode(self) -> bytes:
        """Return the record as stored."""
        ttl = {} if self.ttl is None else {"ttl": [*self.ttl.before, (None, self.ttl.now_ms)]}
        return _dump(
            vhost=self.vhost, name=self.name, auto_delete=self.auto_delete,
            arguments=dump_table(self.arguments), **ttl,
        )  # fmt: skip


def decode_queue(value: bytes) -> QueueRecord:
    """Decode a stored record."""
    record = json.loads(value)
    return QueueRecord(
        record["vhost"], record["name"], record["auto_delete"], load_table(record["arguments"]),
        _load_ttl(record.get("ttl")),
    )  # fmt: skip


def _load_ttl(dumped: Any) -> ChangedTtl | None:
    if dumped is None:
        return None
    *before, (_, now_ms) = dumped
    return ChangedTtl(now_ms, tuple((until_ms, ttl_ms) for until_ms, ttl_ms in before))


def exchange_key(vhost: str, name: str) -> str:
    """Return the key of an exchange."""
    return f"{EXCHANGES}{_part(vhost)}/{_part(name)}"


def encode_exchange(vhost: str, exchange: Exchange) -> bytes:
    """Return a durable exchange as stored."""
    return _dump(
        vhost=vhost, name=exchange.name, type=exchange.type, auto_delete=exchange.auto_delete,
        internal=exchange.internal, arguments=dump_table(exchange.arguments),
    )  # fmt: skip


def decode_exchange(value: bytes) -> tuple[str, Exchange]:
    """Return the vhost and the exchange of a stored record."""
    record = json.loads(value)
    return record["vhost"], Exchange(
        record["name"], record["type"], durable=True, auto_delete=record["auto_delete"],
        internal=record["internal"], arguments=load_table(record["arguments"]),
    )  # fmt: skip


def encode_binding(vhost: str, binding: Binding) -> bytes:
    """Return a durable binding as stored."""
    return _dump(
        vhost=vhost, source=binding.source, kind=binding.kind.value,
        destination=binding.destination, routing_key=binding.routing_key,
        arguments=dump_table(dict(sorted(binding.arguments.items()))),
    )  # fmt: skip


def binding_key(vhost: str, binding: Binding) -> str:
    """Return the key of a binding: a digest of the whole."""
    return f"{BINDINGS}{_part(vhost)}/{sha256(encode_binding(vhost, binding)).hexdigest()[:40]}"


def decode_binding(value: bytes) -> tuple[str, Binding]:
    """Return the vhost and the binding of a stored record."""
    record = json.loads(value)
    return record["vhost"], Binding(
        record["source"], record["destination"], record["routing_key"],
        load_table(record["arguments"]), DestinationKind(record["kind"]),
    )  # fmt: skip


def vhosts_in(rows: Iterable[bytes]) -> Iterator[str]:
    """Yield the vhosts of records of any kind."""
    for value in rows:
        yield json.loads(value)["vhost"]


def keys_of(vhost: str, rows: Mapping[str, bytes]) -> list[str]:
    """Return the keys of a vhost's records of any kind."""
    return [key for key, value in rows.items() if json.loads(value)["vhost"] == vhost]


def dump_table(table: Table) -> dict[str, Any]:
    """Return a table as JSON values, including types."""
    return {name: _dump_field(each) for name, each in table.items()}


def load_table(table: Mapping[str, Any]) -> dict[str, Field]:
    """Return a table dumped by :func:`dump_table`."""
    return {name: _load_field(each) for name, each in table.items()}


def _dump_field(each: Field) -> list[Any]:
    kind, value = each
    shown: Any = value
    if isinstance(value, bytes):
        shown = value.decode("utf-8", "surrogateescape")
    elif isinstance(value, Decimal):
        shown = list(value)
    elif isinstance(value, tuple):
        shown = [_dump_field(inner) for inner in value]
    elif isinstance(value, Mapping):
        shown = dump_table(value)
    return [kind.erlang_name, shown]


def _load_field(each: list[Any]) -> Field:
    name, shown = each
    kind = FieldType[name.upper()]
    value: FieldValue = shown
    if isinstance(shown, str):
        value = shown.encode("utf-8", "surrogateescape")
    elif kind is FieldType.DECIMAL:
        value = Decimal(*shown)
    elif kind is FieldType.ARRAY:
        value = tuple(_load_field(inner) for inner in shown)
    elif kind is FieldType.TABLE:
        value = load_table(shown)
    return Field(kind, value)


def _dump(**record: Any) -> bytes:
    # Names that are not UTF-8 contain lone surrogates, which JSON keeps as escapes.
    return json.dumps(record, separators=(",", ":")).encode("ascii")


def _part(name: str) -> str:
    raw = encode(name).encode("utf-8", "surrogateescape")
    if len(raw) <= KEY_PART_BYTES_MAX:
        return raw.decode("utf-8", "backslashreplace")
    digest = sha256(raw).hexdigest()[:40]
    kept = raw[: KEY_PART_BYTES_MAX - len(digest) - 1].decode("utf-8", "ignore")
    return f"{kept}~{digest}"
