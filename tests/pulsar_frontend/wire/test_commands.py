"""Commands: only whole ones are read, and only what the C++ client knows is built."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import mutated, read, sends, simple_commands

from arneb_core.api.entries.position import BEFORE_ALL, position_at
from arneb_pulsar.packing.message_ids import message_id_of
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.commands import FIELD_OF, parse_command
from arneb_pulsar.wire.errors import CommandError
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand
from arneb_pulsar.wire.sends import parse_send

KNOWN_TO_CPP = {
    "SEND_RECEIPT", "SEND_ERROR", "SUCCESS", "PARTITIONED_METADATA_RESPONSE",
    "CONSUMER_STATS_RESPONSE", "LOOKUP_RESPONSE", "PRODUCER_SUCCESS", "ERROR", "TOPIC_MIGRATED",
    "CLOSE_PRODUCER", "CLOSE_CONSUMER", "PING", "PONG", "AUTH_CHALLENGE",
    "ACTIVE_CONSUMER_CHANGE", "GET_LAST_MESSAGE_ID_RESPONSE",
    "GET_TOPICS_OF_NAMESPACE_RESPONSE", "GET_SCHEMA_RESPONSE", "ACK_RESPONSE", "MESSAGE",
    "CONNECTED",
}  # fmt: skip
"""On anything else the C++ client closes the connection."""

BUILT = [
    commands.PING,
    commands.PONG,
    commands.connected("Arneb", 21, 5),
    commands.success(1),
    commands.error(1, pb.MetadataError, "x"),
    commands.partitions(1, 0),
    commands.partitions_failed(1, pb.TopicNotFound, "x"),
    commands.lookup_connect(1, "pulsar://h:1"),
    commands.lookup_failed(1, pb.TopicNotFound, "x"),
    commands.topics_of_namespace(1, ["a"], "h"),
    commands.topics_unchanged(1, "h"),
    commands.producer_success(1, "p"),
    commands.send_error(1, 2, pb.ChecksumError, "x"),
    commands.close_producer(1),
    commands.close_consumer(1),
    commands.ack_response(1, 2),
    commands.ack_response(1, 2, pb.NotAllowedError, "x"),
    commands.last_message_id(
        1, message_id_of(position_at(1, 2), -1, 3), message_id_of(position_at(1, 1))
    ),
    commands.schema_failed(1, pb.TopicNotFound, "x"),
    commands.schema_found(1, pb.Schema(name="s", schema_data=b"", type=pb.Schema.String), b"1"),
    commands.auth_challenge("Arneb", 21),
    commands.lookup_connect(1, "pulsar+ssl://h:1"),
    commands.producer_success(1, "p", 5, epoch=3, ready=False, schema_version=b"1"),
    commands.consumer_stats(pb.CommandConsumerStatsResponse(request_id=1)),
    commands.active_consumer_change(1, True),
]


ASKED_FOR = {
    "GET_OR_CREATE_SCHEMA_RESPONSE": commands.schema_attached(1, b"1"),
    "WATCH_TOPIC_LIST_SUCCESS": commands.topics_watched(1, 2, ["a"], "h"),
    "WATCH_TOPIC_UPDATE": commands.topics_changed(2, ["a"], [], "h"),
}
"""What only clients hear that asked for it, which the C++ client does not."""

NOT_FOR_CPP = {"REACHED_END_OF_TOPIC": commands.reached_end_of_topic(1)}
"""What only Java clients hear; see :mod:`arneb_pulsar.session.client`."""


def command_in(frame: bytes) -> BaseCommand:
    ((data, payload),) = read(FrameReader(), frame)
    assert payload == b""
    return parse_command(data)


@pytest.mark.parametrize("frame", BUILT)
def test_what_is_built_is_whole_and_known_to_cpp(frame: bytes) -> None:
    assert BaseCommand.Type.Name(command_in(frame).type) in KNOWN_TO_CPP


@pytest.mark.parametrize("name", [*ASKED_FOR, *NOT_FOR_CPP])
def test_what_is_for_some_only_is_whole(name: str) -> None:
    frame = (ASKED_FOR | NOT_FOR_CPP)[name]
    assert BaseCommand.Type.Name(command_in(frame).type) == name


def test_every_type_has_its_field() -> None:
    assert FIELD_OF.keys() == set(BaseCommand.Type.values())


@given(st.one_of(sends(), simple_commands()), st.data())
def test_damaged_commands_are_parsed_whole_or_refused(command: bytes, data: st.DataObject) -> None:
    damaged = data.draw(mutated(command))
    try:
        found = parse_command(damaged)
    except CommandError:
        return
    assert found.IsInitialized()
    assert found.HasField(FIELD_OF[found.type])


@pytest.mark.parametrize(
    "data",
    [b"", b"\x08\x06", b"\x08\x63", b"\x08\x06\x32\x00", b"\x08\x06\x32\x02\x08\x01", b"\xff"],
)
def test_half_a_command_is_refused(data: bytes) -> None:
    with pytest.raises(CommandError):
        parse_command(data)
    assert parse_send(data) is None


def test_the_last_message_id_of_an_empty_topic_is_minus_one() -> None:
    reply = command_in(commands.last_message_id(7, message_id_of(None), message_id_of(BEFORE_ALL)))
    answer = reply.getLastMessageIdResponse
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == (
        (1 << 64) - 1,
        (1 << 64) - 1,
    )
    before = answer.consumer_mark_delete_position
    assert (before.ledgerId, before.entryId) == (1, (1 << 64) - 1)
