"""Definitions as Protocol Buffers descriptors: which message a schema describes.

The rule: only names are read. Pulsar lets a message change freely while it keeps its name; the
meaning of the fields is left to its clients.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from arneb_core.api.encoding.json_text import parse_json


def root_message(data: bytes) -> str:
    """Return the full name of the message that a definition describes. Raises
    :class:`ValueError`."""
    definition = parse_json(data)
    root, file_name = (
        _text(definition, f"root{of}Name") for of in ("MessageType", "FileDescriptor")
    )
    file = _file(_text(definition, "fileDescriptorSet"), file_name)
    if root not in _names(file.message_type, file.package):
        raise ValueError(f"expected the message {root!r} in {file_name!r}, it is not there")
    return root


def _text(definition: Any, field: str) -> str:
    found = definition.get(field) if isinstance(definition, dict) else None
    if not isinstance(found, str):
        raise ValueError(f"expected text in the field {field!r}, got {type(found).__name__}")
    return found


def _file(encoded: str, name: str) -> FileDescriptorProto:
    try:
        files = FileDescriptorSet.FromString(b64decode(encoded, validate=True))
    except DecodeError as error:
        raise ValueError("expected a set of file descriptors, got something else") from error
    for file in files.file:
        if file.name == name:
            return file
    raise ValueError(f"expected the file {name!r} among {len(files.file)}, it is not there")


def _names(messages: Iterable[DescriptorProto], above: str) -> Iterator[str]:
    """Yield the full names of ``messages`` and of those nested in them."""
    for message in messages:
        name = f"{above}.{message.name}" if above else message.name
        yield name
        yield from _names(message.nested_type, name)
