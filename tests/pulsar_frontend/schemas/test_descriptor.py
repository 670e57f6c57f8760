"""Definitions in Protocol Buffers' words: the message that they are about, and broken ones."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.schemas.compatibility import (
    IncompatibleSchema,
    Strategy,
    check_consumer,
    check_producer,
    check_valid,
)
from arneb_pulsar.schemas.descriptor import root_message
from arneb_pulsar.schemas.schema import Schema, SchemaType


def definition(*files: FileDescriptorProto, root: str, file: str, **fields: Any) -> bytes:
    """As clients write it."""
    data = base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()
    names = {"rootMessageTypeName": root, "rootFileDescriptorName": file}
    return json.dumps({"fileDescriptorSet": data} | names | fields).encode()


def of_message(message: Any) -> Schema:
    file = FileDescriptorProto()
    message.DESCRIPTOR.file.CopyToProto(file)
    data = definition(file, root=message.DESCRIPTOR.full_name, file=file.name)
    return Schema(SchemaType.PROTOBUF_NATIVE, data)


NESTED = FileDescriptorProto(
    name="a.proto",
    package="shop",
    message_type=[DescriptorProto(name="Order", nested_type=[DescriptorProto(name="Line")])],
)
BARE = FileDescriptorProto(name="b.proto", message_type=[DescriptorProto(name="Order")])
VALID = definition(NESTED, BARE, root="shop.Order", file="a.proto")


@pytest.mark.parametrize(
    ("root", "file"),
    [("shop.Order", "a.proto"), ("shop.Order.Line", "a.proto"), ("Order", "b.proto")],
)
def test_the_message_is_found(root: str, file: str) -> None:
    assert root_message(definition(NESTED, BARE, root=root, file=file)) == root


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"3",
        b"[]",
        b"{}",
        b"[" * 100_000,
        definition(NESTED, root="Order", file="a.proto"),
        definition(NESTED, root="shop.Order", file="b.proto"),
        definition(NESTED, root="shop", file="a.proto"),
        definition(root="Order", file="b.proto"),
        definition(BARE, root="Order", file="b.proto", fileDescriptorSet="no base64!"),
        definition(BARE, root="Order", file="b.proto", fileDescriptorSet="AAAA"),
        definition(BARE, root="Order", file="b.proto", rootMessageTypeName=None),
    ],
)
def test_what_describes_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        root_message(data)
    with pytest.raises(IncompatibleSchema, match="PROTOBUF_NATIVE"):
        check_valid(Schema(SchemaType.PROTOBUF_NATIVE, data))


@given(st.data())
def test_anything_else_is_a_value_error(data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(VALID)))
    other = data.draw(st.binary(max_size=4))
    try:
        root_message(VALID[:cut] + other + VALID[cut + len(other) :])
    except ValueError:
        return


@pytest.mark.parametrize("strategy", Strategy)
def test_a_message_keeps_its_name(strategy: Strategy) -> None:
    old, same, new = of_message(Timestamp), of_message(Timestamp), of_message(Duration)
    check_valid(old)
    may_change = strategy is Strategy.ALWAYS_COMPATIBLE
    for check in (check_producer, check_consumer):
        if strategy is not Strategy.ALWAYS_INCOMPATIBLE:
            check([old], same, strategy)
        if may_change:
            check([old], new, strategy)
        else:
            with pytest.raises(IncompatibleSchema):
                check([old], new, strategy)


def test_a_message_may_change_under_its_name() -> None:
    grown = FileDescriptorProto(
        name="b.proto",
        message_type=[DescriptorProto(name="Order", nested_type=[DescriptorProto(name="Line")])],
    )
    old, new = (
        Schema(SchemaType.PROTOBUF_NATIVE, definition(each, root="Order", file="b.proto"))
        for each in (BARE, grown)
    )
    check_producer([old], new, Strategy.FULL_TRANSITIVE)
