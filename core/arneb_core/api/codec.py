"""The neutral message, and the codecs that turn any origin's entries into it.

The rule: only an origin's own frontend knows its wire form, and frontends never
import one another. So each frontend publishes one :class:`Codec` under the entry
point group ``arneb.codecs``, and whoever meets a foreign entry (the other
frontend, Spark) finds the codec by the origin in the entry's header. A broker
names its frontends' codecs by itself, for it must not read files when the first such
entry comes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import repeat
from typing import Final, Protocol, runtime_checkable

from arneb_core.api.entry import HEADER_BYTES, Origin, read_header

CODEC_GROUP: Final = "arneb.codecs"


@dataclass(frozen=True, slots=True)
class Message:
    """One message as every door understands it.

    ``key`` is AMQP's routing key and Pulsar's partition key (raw bytes).
    ``properties`` are strings both ways; AMQP properties and typed headers that have no
    Pulsar field travel as the reserved names of ``docs/internals/translation.md``.
    Times are ms since the epoch; 0 means not set.
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
    """There is no value at all (a tombstone), as against an empty one; ``value`` is empty then."""
    schema_version: bytes | None = None
    """The version of the topic's schema with which the value was written, as its producer said."""


@dataclass(slots=True)
class MessageColumns:
    """The messages of many entries field by field: each list has one item a message, in order."""

    values: list[bytes | None] = field(default_factory=list)
    """None = null, or raw."""
    keys: list[bytes | None] = field(default_factory=list)
    ordering_keys: list[bytes | None] = field(default_factory=list)
    properties: list[Mapping[str, str]] = field(default_factory=list)
    """Empty when nobody asked for them."""
    publish_times_ms: list[int] = field(default_factory=list)
    event_times_ms: list[int] = field(default_factory=list)
    producer_names: list[str] = field(default_factory=list)
    sequence_ids: list[int] = field(default_factory=list)
    schema_versions: list[bytes | None] = field(default_factory=list)
    batch_indexes: list[int] = field(default_factory=list)
    raw: list[int] = field(default_factory=list)
    """The indexes of the entries that cannot be read. Each has as many items as its header counts
    messages, the first with the body as its value, the others with none."""
    entries: int = 0
    """How many entries they are of."""

    def add(self, message: Message) -> None:
        """One message more."""
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
        """One more entry that cannot be read."""
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
        """Take back everything behind so many messages."""
        for items in (
            self.values, self.keys, self.ordering_keys, self.properties, self.publish_times_ms,
            self.event_times_ms, self.producer_names, self.sequence_ids, self.schema_versions,
            self.batch_indexes,
        ):  # fmt: skip
            del items[messages:]


@dataclass(frozen=True, slots=True)
class Part:
    """What an entry that is one part of a larger message says of itself."""

    message: str
    """Names the message inside its topic."""
    index: int
    """Of this part, from 0."""
    count: int
    """Of all parts."""


class Codec(Protocol):
    """Reads the entries of one origin. Stateless, does no I/O, safe in any thread."""

    origin: Origin

    def decode(self, entry: bytes) -> Sequence[Message]:
        """Every message of ``entry`` (header included in the bytes), in batch order.

        Raises :class:`ValueError` when the body is not in the origin's wire form, or is
        kept encrypted and so cannot be read by a broker.
        """
        ...


@runtime_checkable
class ColumnCodec(Codec, Protocol):
    """A codec that reads many entries faster than one by one."""

    def decode_columns(
        self, entries: Sequence[bytes], *, properties: bool, bytes_max: int
    ) -> MessageColumns:
        """What :meth:`decode` says of each, up to the entry with which the values reach
        ``bytes_max``; never raises for what an entry holds. Without ``properties`` these may be
        left out altogether."""
        ...

    def are_batches(self, entries: Sequence[bytes]) -> list[bool]:
        """Of each, whether its messages have batch indexes, be it one; False if it is damaged. Does
        not look at the messages."""
        ...


@runtime_checkable
class PartCodec(Codec, Protocol):
    """A codec of an origin that divides large messages into several entries
    (:attr:`.EntryFlag.GROUPED`)."""

    def part_of(self, entry: bytes) -> Part | None:
        """What part the entry is; None if it is a whole message, or damaged."""
        ...

    def join(self, parts: Sequence[bytes]) -> bytes:
        """The entry that the parts, in order, would have been in one piece. Raises
        :class:`ValueError` when they do not fit."""
        ...


class BrokerCodec:
    """Reads what the broker wrote itself."""

    origin: Origin = Origin.BROKER

    def decode(self, entry: bytes) -> Sequence[Message]:
        """The one message of ``entry``."""
        header = read_header(entry)
        return [Message(entry[HEADER_BYTES:], publish_time_ms=header.publish_time_ms)]


_named: list[str] = []


def name_codecs(*modules: str) -> None:
    """Have :func:`codecs` load these modules' ``CODEC`` instead of what is installed.

    To look for that imports :mod:`importlib.metadata` and reads a file of every installed package:
    tens of milliseconds in which an event loop serves nobody. A broker's modules are hardly ever
    not imported yet when they are asked for; where one frontend alone is served they are not, and
    their two MiB are not spent.
    """
    _named[:] = modules
    codecs.cache_clear()


@cache
def codecs() -> Mapping[Origin, Codec]:
    """Every codec by origin, loaded once a process."""
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
