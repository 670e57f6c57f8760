"""Messages of Protocol Buffers in their own form, with the descriptors that explain them.

The rule: a topic is told the message's file with all that it imports, as Java's client tells it, so
that readers without the class can be written. Evolution is Protocol Buffers' own: by field numbers.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError, EncodeError, Message

from arneb_pulsar.client.codec.schemas.schema import SchemaInfo
from arneb_pulsar.client.errors import ConfigurationError, SchemaError
from arneb_pulsar.wire.proto.pulsar_pb2 import Schema as WireSchema

T = TypeVar("T", bound=Message)


class _File(Protocol):
    """What the descriptors of files of all of the library's implementations have."""

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
        """Raises :class:`SchemaError` for another message, or one that lacks required fields."""
        if not isinstance(value, self._cls):
            raise SchemaError(f"expected {self._cls.__name__}, got {type(value).__name__}")
        try:
            return value.SerializeToString()
        except EncodeError as error:
            raise SchemaError(f"expected a whole {self._cls.__name__}: {error}") from error

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> T:
        """Raises :class:`SchemaError` if ``data`` is no such message."""
        try:
            return self._cls.FromString(data)
        except DecodeError as error:
            raise SchemaError(f"expected a {self._cls.__name__}: {error}") from error


def _collect(file: _File, files: FileDescriptorSet, known: set[str]) -> None:
    """Add ``file`` and all that it imports, what is imported first."""
    if file.name in known:
        return
    known.add(file.name)
    for each in file.dependencies:
        _collect(each, files, known)
    made = FileDescriptorProto()
    file.CopyToProto(made)
    files.file.append(made)
