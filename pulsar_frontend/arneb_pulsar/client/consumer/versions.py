"""Versions: the schemas that a topic's messages were written with, for decoding their values.

The rule: a message waits, with all after it, until its writer's schema is known; if the broker
does not know the schema either, the reader's own is used.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from arneb_pulsar.client.codec.schemas.schema import Schema, SchemaInfo
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetSchemaResponse

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

WITHOUT_VERSIONS: Final = frozenset(
    {pb.Schema.Type.Value("None"), pb.Schema.String, pb.Schema.ProtobufNative}
)
"""Schema types whose values are decoded without the writer's schema."""

Ask = Callable[[bytes], Awaitable[CommandGetSchemaResponse]]
"""Requests a schema version from the broker."""


class SchemaVersions(Generic[T]):
    """The decoder of one topic's messages."""

    def __init__(self, context: ClientContext, schema: Schema[T], topic: str, ask: Ask) -> None:
        self.known: Callable[[], None] = lambda: None
        """Called when another version has become known."""
        self._context = context
        self._schema = schema
        self._topic = topic
        self._ask = ask
        self._wanted = schema.info.type not in WITHOUT_VERSIONS
        self._versions: dict[bytes, SchemaInfo | None] = {}
        self._asked: set[bytes] = set()

    def __repr__(self) -> str:
        return f"<SchemaVersions of {self._topic}, {len(self._versions)} known>"

    @property
    def are_known(self) -> bool:
        """Whether no request for a version is open."""
        return not self._asked

    def decode(self, data: bytes, version: bytes) -> T:
        """Return the value. Raises :class:`SchemaError`."""
        return self._schema.decode(data, self._versions.get(version))

    def need(self, version: bytes) -> None:
        """Request a version, with which a message was written, unless it is known."""
        if not version or not self._wanted:
            return
        if version in self._versions or version in self._asked:
            return
        self._asked.add(version)
        self._context.tasks.start_soon(self._find, version)

    async def _find(self, version: bytes) -> None:
        found: SchemaInfo | None = None
        try:
            found = SchemaInfo.from_wire((await self._ask(version)).schema)
        except PulsarError as error:
            LOG.warning("version %s of %s's schema: %s", version.hex(), self._topic, error)
        self._versions[version] = found
        self._asked.discard(version)
        self.known()
