"""Protocol Buffers messages in their own encoding, with the descriptors of their types.

The rule: the schema has the message's file descriptor with all its imports, as in Java's client, so
that readers can decode without the class. Schema evolution is Protocol Buffers' own: by field
numbers.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from arneb_pulsar.client.codec.schemas.schema import SchemaInfo
from arneb_pulsar.client.errors import ConfigurationError, SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema

T = TypeVar("T", bound=Message)

CLASSES_MAX: Final = 64
"""Writers' definitions whose classes are cached: a topic has a few versions."""


class _File(Protocol):
    """What file descriptors have in all implementations of the library."""

    @property
    def name(self) -> str: ...

    @property
    def dependencies(self) -> "Sequence[_File]": ...

    def CopyToProto(self, proto: FileDescriptorProto) -> None: ...  # noqa: N802


class ProtobufNativeSchema(Generic[T]):
    """Values of one generated message class."""

    def __init__(self, message: type[T]) -> None:
        if not issubclass(message, Message):
            raise ConfigurationError(f"expected a generated message class, got {message!r}")
        self._cls = message
        descriptor = message.DESCRIPTOR
        files = FileDescriptorSet()
        _collect(descriptor.file, files, set())
        definition = {
            "fileDescriptorSet": b64encode(files.SerializeToString()).decode(),
            "rootMessageTypeName": descriptor.full_name,
            "rootFileDescriptorName": descriptor.file.name,
        }
        data = json.dumps(definition).encode()
        self.info = SchemaInfo(WireSchema.ProtobufNative, descriptor.name, data)

    def __repr__(self) -> str:
        return f"<ProtobufNativeSchema {self._cls.DESCRIPTOR.full_name}>"

    def encode(self, value: T) -> bytes:
        """Encode a message. Raises :class:`SchemaError` for one of another type, or without its
        required fields."""
        if not isinstance(value, self._cls):
            raise SchemaError(f"expected {self._cls.__name__}, got {type(value).__name__}")
        try:
            return value.SerializeToString()
        except EncodeError as error:
            raise SchemaError(f"expected a whole {self._cls.__name__}: {error}") from error

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> T:
        """Decode a message. Raises :class:`SchemaError` if ``data`` is not one of this type."""
        try:
            return self._cls.FromString(data)
        except DecodeError as error:
            raise SchemaError(f"expected a {self._cls.__name__}: {error}") from error


def _collect(file: _File, files: FileDescriptorSet, known: set[str]) -> None:
    """Add ``file`` with all its imports, imports first."""
    if file.name in known:
        return
    known.add(file.name)
    for each in file.dependencies:
        _collect(each, files, known)
    made = FileDescriptorProto()
    file.CopyToProto(made)
    files.file.append(made)


def read_protobuf(data: bytes, definition: bytes) -> Message:
    """Read a message with its writer's definition. Raises :class:`SchemaError`."""
    try:
        return _class_of(definition).FromString(data)
    except DecodeError as error:
        raise SchemaError(f"expected what its writer's descriptors say: {error}") from error


@lru_cache(CLASSES_MAX)
def _class_of(definition: bytes) -> type[Message]:
    try:
        document = json.loads(definition)
        files = FileDescriptorSet.FromString(b64decode(document["fileDescriptorSet"]))
        pool = DescriptorPool()
        for each in files.file:
            pool.Add(each)
        made: type[Message] = GetMessageClass(
            pool.FindMessageTypeByName(document["rootMessageTypeName"])
        )
    except (ValueError, KeyError, TypeError, DecodeError, RecursionError) as error:
        raise SchemaError(f"expected descriptors of a message, got {error!r}") from error
    return made
