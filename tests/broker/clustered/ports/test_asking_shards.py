"""A Pulsar client's requests go to the shard that they concern, and the answers come back."""

from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.session.playbook import received

from arneb.clustered.ports.asking_shards import (
    PENDING_MAX,
    AskingShards,
    connect_in,
    shard_at,
    url_of_shard,
)
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.errors import CommandError, FrameError
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

CONNECT = pb.CommandConnect(client_version="test", protocol_version=21)
CONNECTED = commands.connected("Arneb", 21, 5 << 20)


def frame(command: Message) -> bytes:
    return bytes(received(command).data)


def commands_in(data: bytes) -> list[Any]:
    found, _ = FrameReader().receive(data)
    parsed = [commands.parse_command(each) for each in found]
    return [getattr(each, commands.FIELD_OF[each.type]) for each in parsed]


def machine() -> AskingShards:
    """A client of the first shard's broker, which has admitted it."""
    made = AskingShards(
        lambda namespace: "audit" if namespace.startswith("books/") else "main",
        "main",
        frame(CONNECT),
    )
    made.opened("main")
    assert made.from_shard("main", CONNECTED) == (CONNECTED, b"")
    return made


def lookup(topic: str, request_id: int = 1) -> bytes:
    return frame(pb.CommandLookupTopic(topic=topic, request_id=request_id))


WHERE = [
    (pb.CommandLookupTopic(topic="persistent://books/a/t", request_id=1), "audit"),
    (pb.CommandLookupTopic(topic="books/a/t", request_id=1), "audit"),
    (pb.CommandLookupTopic(topic="t", request_id=1), "main"),
    (pb.CommandPartitionedTopicMetadata(topic="persistent://books/a/t", request_id=1), "audit"),
    (pb.CommandPartitionedTopicMetadata(topic="persistent://public/a/t", request_id=1), "main"),
    (pb.CommandGetTopicsOfNamespace(namespace="books/a", request_id=1), "audit"),
    (pb.CommandGetSchema(topic="persistent://books/a/t", request_id=1), "audit"),
    (
        pb.CommandWatchTopicList(
            namespace="books/a", request_id=1, watcher_id=3, topics_pattern="x"
        ),
        "audit",
    ),
    (pb.CommandPing(), "main"),
    (pb.CommandTcClientConnectRequest(request_id=1, tc_id=0), "main"),
]


@pytest.mark.parametrize(("command", "shard"), WHERE)
def test_each_request_goes_to_its_shard(command: Message, shard: str) -> None:
    assert machine().from_client(frame(command)) == [(shard, frame(command))]


@given(st.lists(st.sampled_from(WHERE), max_size=6), st.data())
def test_however_the_bytes_are_split_each_command_arrives_whole(
    asked: list[tuple[Message, str]], data: st.DataObject
) -> None:
    made, rest = machine(), b"".join(frame(each) for each, _ in asked)
    found: list[tuple[str, bytes]] = []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        found += made.from_client(rest[:size])
        rest = rest[size:]
    assert found == [(shard, frame(each)) for each, shard in asked]


def test_a_request_waits_until_its_broker_has_admitted_the_client() -> None:
    made, asked = machine(), lookup("books/a/t")
    made.opened("audit")
    assert made.ask("audit", asked) == b""
    # The client has received this from the first broker already.
    assert made.from_shard("audit", CONNECTED) == (b"", asked)
    assert made.ask("audit", asked) == asked
    answer = commands.lookup_connect(1, "pulsar://somewhere:6650")
    assert made.from_shard("audit", answer) == (answer, b"")


def test_keep_alives_of_other_shards_are_answered_here_and_those_of_the_first_by_the_client() -> (
    None
):
    made = machine()
    made.opened("audit")
    assert made.from_shard("audit", commands.PING) == (b"", commands.PONG)
    assert made.from_shard("main", commands.PING) == (commands.PING, b"")


def test_requests_that_are_unanswered_when_a_broker_goes_are_to_be_repeated() -> None:
    made = machine()
    made.opened("audit")
    made.from_shard("audit", CONNECTED)
    for asked in (
        lookup("books/a/t", 1),
        frame(pb.CommandPartitionedTopicMetadata(topic="books/a/t", request_id=2)),
        frame(pb.CommandGetTopicsOfNamespace(namespace="books/a", request_id=3)),
        lookup("books/a/u", 4),
    ):
        made.ask("audit", asked)
    made.from_shard("audit", commands.lookup_connect(4, "pulsar://somewhere:6650"))
    heard = commands_in(made.ended("audit", "gone"))
    assert [(type(each), each.request_id, each.error, each.message) for each in heard] == [
        (pb.CommandLookupTopicResponse, 1, pb.ServiceNotReady, "gone"),
        (pb.CommandPartitionedTopicMetadataResponse, 2, pb.ServiceNotReady, "gone"),
        (pb.CommandError, 3, pb.ServiceNotReady, "gone"),
    ]
    assert made.ended("audit", "gone") == b""
    made.opened("audit")  # and by the time it is asked again there is another broker
    assert made.ask("audit", lookup("books/a/t")) == b""


def test_a_renewed_authentication_goes_to_all_shards() -> None:
    made = machine()
    made.opened("audit")
    answer = frame(pb.CommandAuthResponse(protocol_version=21))
    assert made.from_client(answer) == [("main", answer), ("audit", answer)]


def test_a_watch_is_closed_at_the_shard_where_it_was_opened() -> None:
    made = machine()
    for namespace, watcher, shard in (("books/a", 1, "audit"), ("public/a", 2, "main")):
        begin = pb.CommandWatchTopicList(
            namespace=namespace, request_id=1, watcher_id=watcher, topics_pattern="x"
        )
        end = frame(pb.CommandWatchTopicListClose(request_id=2, watcher_id=watcher))
        assert made.from_client(frame(begin))[0][0] == shard
        assert made.from_client(end) == [(shard, end)]


def test_the_number_of_unanswered_requests_is_bounded() -> None:
    made = machine()
    made.opened("audit")
    for request_id in range(PENDING_MAX):
        made.ask("audit", lookup("books/a/t", request_id))
    with pytest.raises(CommandError):
        made.ask("audit", lookup("books/a/t", PENDING_MAX))


@pytest.mark.parametrize("data", [b"\xff" * 16, b"\0\0\0\4\0\0\0\0", b"\0\0\0\5\0\0\0\1\1"])
def test_what_is_not_a_command_is_refused(data: bytes) -> None:
    with pytest.raises((CommandError, FrameError)):
        machine().from_client(data)
    with pytest.raises((CommandError, FrameError)):
        connect_in(data)


def test_a_client_must_send_connect_first() -> None:
    connect = frame(CONNECT)
    found = connect_in(connect + lookup("t"))
    assert found is not None
    assert (found[0], found[1].client_version) == (connect, "test")
    assert connect_in(connect[:-1]) is None
    with pytest.raises(CommandError, match="expected CONNECT first"):
        connect_in(lookup("t"))


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True), st.booleans())
def test_a_shard_is_found_by_the_address_given_to_clients(name: str, by_tls: bool) -> None:
    scheme, address = url_of_shard(name, by_tls=by_tls).split("://")
    assert scheme == ("pulsar+ssl" if by_tls else "pulsar")
    assert shard_at(address) == name
    assert address.lower() == address


@pytest.mark.parametrize(
    "address", ["", "broker-1:6650", "s61.shard.other:6650", "sxx.shard.arneb:1"]
)
def test_the_address_of_another_broker_belongs_to_no_shard(address: str) -> None:
    assert shard_at(address) == ""
