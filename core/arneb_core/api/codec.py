"""The neutral message, and the codecs that turn any origin's entries into it.

The rule: only an origin's own frontend knows its wire form, and frontends never
import one another. So each frontend publishes one :class:`Codec` under the entry
point group ``arneb.codecs``, and whoever meets a foreign entry (the other
frontend, Spark) finds the codec by the origin in the entry's header.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Final, Protocol

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


class Codec(Protocol):
    """Reads the entries of one origin. Stateless, does no I/O, safe in any thread."""

    origin: Origin

    def decode(self, entry: bytes) -> Sequence[Message]:
        """Every message of ``entry`` (header included in the bytes), in batch order.

        Raises :class:`ValueError` when the body is not in the origin's wire form, or is
        kept encrypted and so cannot be read by a broker.
        """
        ...


class BrokerCodec:
    """Reads what the broker wrote itself."""

    origin: Origin = Origin.BROKER

    def decode(self, entry: bytes) -> Sequence[Message]:
        """The one message of ``entry``."""
        header = read_header(entry)
        return [Message(entry[HEADER_BYTES:], publish_time_ms=header.publish_time_ms)]


@cache
def codecs() -> Mapping[Origin, Codec]:
    """Every installed codec by origin, loaded once a process."""
    found: dict[Origin, Codec] = {Origin.BROKER: BrokerCodec()}
    for point in entry_points(group=CODEC_GROUP):
        codec: Codec = point.load()
        found[codec.origin] = codec
    return found
