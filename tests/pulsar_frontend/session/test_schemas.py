"""GET_SCHEMA and GET_OR_CREATE_SCHEMA."""

import pytest
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_pulsar.names import parse_topic
from arneb_pulsar.schemas.schema import Schema, SchemaType, Version
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import (
    AttachConsumer,
    AttachSchema,
    FindSchema,
    OpenProducer,
)
from arneb_pulsar.session.interface.events import ProducerOpened, SchemaAttached, SchemaFound
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TOPIC = parse_topic("t-partition-3")
SCHEMA = Schema(SchemaType.JSON, b"{}", {"k": "v"})
MESSAGE = pb.Schema(
    name="x",
    schema_data=b"{}",
    type=pb.Schema.Json,
    properties=[pb.KeyValue(key="k", value="v")],
)
FIVE = bytes(7) + b"\x05"


@pytest.mark.parametrize(("version", "number"), [(None, None), (FIVE, 5)])
def test_a_schema_is_asked_for(version: bytes | None, number: int | None) -> None:
    command = pb.CommandGetSchema(request_id=4, topic=str(TOPIC), schema_version=version)
    play = Playbook() >> received(command) << FindSchema(4, TOPIC, number)
    play >> SchemaFound(4, TOPIC, Version(5, SCHEMA, 0))
    found = pb.Schema()
    found.CopyFrom(MESSAGE)
    found.name = "public/default/t"
    play << sent(pb.CommandGetSchemaResponse(request_id=4, schema=found, schema_version=FIVE))
    play.over()


@pytest.mark.parametrize("version", [None, Version(5, None, 0)])
def test_there_may_be_none(version: Version | None) -> None:
    play = Playbook() >> SchemaFound(4, TOPIC, version)
    text = "Topic not found or no-schema"
    play << sent(
        pb.CommandGetSchemaResponse(request_id=4, error_code=pb.TopicNotFound, error_message=text)
    )
    play.over()


@pytest.mark.parametrize("version", [b"", b"five"])
def test_a_version_that_is_none_is_refused(version: bytes) -> None:
    play = Playbook()
    play >> received(pb.CommandGetSchema(request_id=4, topic="t", schema_version=version))
    assert play.heard().command.error_code == pb.IncompatibleSchema
    play.over()


def test_a_schema_is_attached() -> None:
    play = Playbook()
    play >> received(pb.CommandGetOrCreateSchema(request_id=4, topic="t", schema=MESSAGE))
    play << AttachSchema(4, parse_topic("t"), SCHEMA)
    play >> SchemaAttached(4, FIVE, None)
    play << sent(pb.CommandGetOrCreateSchemaResponse(request_id=4, schema_version=FIVE))
    play >> SchemaAttached(5, b"", Failure(pb.IncompatibleSchema, "no"))
    play << sent(
        pb.CommandGetOrCreateSchemaResponse(
            request_id=5, error_code=pb.IncompatibleSchema, error_message="no"
        )
    )
    play.over()


def test_plain_bytes_are_no_schema_to_attach() -> None:
    plain = pb.Schema(name="BYTES", schema_data=b"", type=getattr(pb.Schema, "None"))
    play = Playbook()
    play >> received(pb.CommandGetOrCreateSchema(request_id=4, topic="t", schema=plain))
    play << AttachSchema(4, parse_topic("t"), None)
    play >> SchemaAttached(4, b"", None)
    play << sent(pb.CommandGetOrCreateSchemaResponse(request_id=4, schema_version=b""))
    play.over()


@pytest.mark.parametrize("kind", [pb.CommandGetSchema, pb.CommandGetOrCreateSchema])
def test_bad_names_are_refused_in_the_answers_own_type(kind: type) -> None:
    fields = {"schema": MESSAGE} if kind is pb.CommandGetOrCreateSchema else {}
    play = Playbook() >> received(kind(request_id=4, topic="a/b/c/d", **fields))
    answer = play.heard().command
    assert (answer.request_id, answer.error_code) == (4, pb.TopicNotFound)
    play.over()


def test_producers_and_consumers_bring_theirs() -> None:
    play = Playbook()
    play >> received(pb.CommandProducer(topic="t", producer_id=1, request_id=1, schema=MESSAGE))
    opening = play.take(OpenProducer)
    assert opening.schema == SCHEMA
    play >> ProducerOpened(opening.key, "me", schema_version=FIVE)
    assert play.heard().command.schema_version == FIVE
    subscribe = pb.CommandSubscribe(
        topic="t", subscription="s", consumer_id=1, request_id=2, schema=MESSAGE, subType=1
    )
    play >> received(subscribe)
    assert play.take(AttachConsumer).schema == SCHEMA
