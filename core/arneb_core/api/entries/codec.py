"""The neutral message, and the codecs that turn any origin's entries into it.

The rule: only an origin's own frontend knows its wire form, and frontends never import one another.
So each frontend publishes one :class:`Codec` under the entry point group ``arneb.codecs``, and
readers of a foreign entry (the other frontend, Spark) find its codec by the origin in the header. A
broker names its frontends' codecs itself, since it must not read files when the first such entry
comes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import repeat
from typing import Final, Protocol, runtime_checkable

from arneb_core.api.entries.entry import HEADER_BYTES, Origin, read_header

CODEC_GROUP: Final = "arneb.codecs"


@dataclass(frozen=True, slots=True)
class Message:
    """One message as every frontend understands it.

    ``key`` is AMQP's routing key and Pulsar's partition key (raw bytes). ``properties`` are strings
    both ways; AMQP properties and typed headers that have no Pulsar field travel under the reserved
    names of ``docs/internals/translation.md``. Times are ms since the epoch; 0 means not set.
    """

    value: bytes
    key: bytes | None = None
    ordering_key: bytes | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    publish_time_ms: int = 0
    event_time_ms: int = 0
    producer_name: str = ""
    sequence_id: int = -1
    batch_index: int = -1
    """Index inside the entry's batch; -1 when the entry is no batch."""
    is_null: bool = False
    """There is no value (a tombstone), as opposed to an empty one; ``value`` is empty then."""
    schema_version: bytes | None = None
    """The version of the topic's schema that the producer says it wrote the value with."""


@dataclass(slots=True)
class MessageColumns:
    """The messages of many entries, field by field: each list has one item per message."""

    values: list[bytes | None] = field(default_factory=list)
    """None: null, or a further message of a raw entry."""
    keys: list[bytes | None] = field(default_factory=list)
    ordering_keys: list[bytes | None] = field(default_factory=list)
    properties: list[Mapping[str, str]] = field(default_factory=list)
    """Empty if nobody asked for them."""
    publish_times_ms: list[int] = field(default_factory=list)
    event_times_ms: list[int] = field(default_factory=list)
    producer_names: list[str] = field(default_factory=list)
    sequence_ids: list[int] = field(default_factory=list)
    schema_versions: list[bytes | None] = field(default_factory=list)
    batch_indexes: list[int] = field(default_factory=list)
    raw: list[int] = field(default_factory=list)
    """Indexes of the entries that cannot be read. Each has as many items as its header counts
    messages; the first has the body as its value, the others have none."""
    entries: int = 0
    """How many entries the messages come from."""

    def add(self, message: Message) -> None:
        """Add one message."""
        self.values.append(None if message.is_null else message.value)
        self.keys.append(message.key)
        self.ordering_keys.append(message.ordering_key)
        self.properties.append(message.properties)
        self.publish_times_ms.append(message.publish_time_ms)
        self.event_times_ms.append(message.event_time_ms)
        self.producer_names.append(message.producer_name)
        self.sequence_ids.append(message.sequence_id)
        self.schema_versions.append(message.schema_version)
        self.batch_indexes.append(message.batch_index)

    def add_raw(
        self, body: bytes, publish_time_ms: int, batch_indexes: Sequence[int] = (-1,)
    ) -> None:
        """Add an entry that cannot be read."""
        count = len(batch_indexes)
        self.raw.append(self.entries)
        self.values += [body, *repeat(None, count - 1)]
        self.keys += [None] * count
        self.ordering_keys += [None] * count
        self.properties += [{} for _ in range(count)]
        self.publish_times_ms += [publish_time_ms] * count
        self.event_times_ms += [0] * count
        self.producer_names += [""] * count
        self.sequence_ids += [-1] * count
        self.schema_versions += [None] * count
        self.batch_indexes += batch_indexes

    def cut(self, messages: int) -> None:
        """Drop everything after the first ``messages`` messages."""
        for items in (
            self.values, self.keys, self.ordering_keys, self.properties, self.publish_times_ms,
            self.event_times_ms, self.producer_names, self.sequence_ids, self.schema_versions,
            self.batch_indexes,
        ):  # fmt: skip
            del items[messages:]


@dataclass(frozen=True, slots=True)
class Part:
    """What an entry that is one part of a larger message says about itself."""

    message: str
    """Names the message inside its topic."""
    index: int
    """The index of this part, from 0."""
    count: int
    """The number of parts."""


class Codec(Protocol):
    """Reads the entries of one origin. Stateless, does no I/O, safe in any thread."""

    origin: Origin

    def decode(self, entry: bytes) -> Sequence[Message]:
        """Return every message of ``entry`` (whose bytes include the header), in batch order.

        Raises :class:`ValueError` when the body is not in the origin's wire form, or is encrypted,
        so that a broker cannot read it.
        """
        ...


@runtime_checkable
class ColumnCodec(Codec, Protocol):
    """A codec that reads many entries faster than one by one."""

    def decode_columns(
        self, entries: Sequence[bytes], *, properties: bool, bytes_max: int
    ) -> MessageColumns:
        """Return what :meth:`decode` returns for each, up to the entry with which the values reach
        ``bytes_max``. Never raises for the content of an entry. Without ``properties``, these may
        be left out."""
        ...

    def are_batches(self, entries: Sequence[bytes]) -> list[bool]:
        """Return for each entry whether its messages have batch indexes, even if it is a single
        one; False if it is damaged. Does not look at the messages."""
        ...


@runtime_checkable
class PartCodec(Codec, Protocol):
    """A codec of an origin that divides large messages into several entries
    (:attr:`.EntryFlag.GROUPED`)."""

    def part_of(self, entry: bytes) -> Part | None:
        """Return which part the entry is; None if it is a whole message, or damaged."""
        ...

    def join(self, parts: Sequence[bytes]) -> bytes:
        """Return the entry that the parts, in order, would have been in one piece. Raises
        :class:`ValueError` when they do not fit together."""
        ...


class CompressedCodec(Codec, Protocol):
    """A codec of an origin whose entries may be compressed."""

    def decompressed_bytes(self, entry: bytes) -> int:
        """Return how many bytes :meth:`decode` makes by decompressing; 0 if none, or if the entry
        is damaged. Does not look at the messages."""
        ...


class BrokerCodec:
    """Reads what the broker itself wrote."""

    origin: Origin = Origin.BROKER

    def decode(self, entry: bytes) -> Sequence[Message]:
        """Return the one message of ``entry``."""
        header = read_header(entry)
        return [Message(entry[HEADER_BYTES:], publish_time_ms=header.publish_time_ms)]


_named: list[str] = []


def name_codecs(*modules: str) -> None:
    """Have :func:`codecs` load these modules' ``CODEC`` instead of looking for installed ones.

    The search imports :mod:`importlib.metadata` and reads a file of every installed package: tens
    of milliseconds in which an event loop serves nobody. A broker has nearly always imported its
    modules by then; where it serves only one frontend, the others are not loaded, which saves two
    MiB.
    """
    _named[:] = modules
    codecs.cache_clear()


@cache
def codecs() -> Mapping[Origin, Codec]:
    """Return every codec by origin, loaded once per process."""
    found: dict[Origin, Codec] = {Origin.BROKER: BrokerCodec()}
    for codec in map(_codec_of, _named) if _named else _installed():
        found[codec.origin] = codec
    return found


def _codec_of(module: str) -> Codec:
    codec: Codec = import_module(module).CODEC
    return codec


def _installed() -> Iterator[Codec]:
    from importlib.metadata import entry_points

    for point in entry_points(group=CODEC_GROUP):
        yield point.load()
