"""Lookups: each is answered in the response type of its request."""

import pytest
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_pulsar.names import parse_topic
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import FindTopic, ListTopics
from arneb_pulsar.session.interface.events import TopicFound, TopicsListed
from arneb_pulsar.session.topics.lookup import hash_of_topics
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
)

URL = "pulsar://127.0.0.1:6650"


def test_a_topic_has_no_partitions() -> None:
    play = Playbook() >> received(CommandPartitionedTopicMetadata(topic="t", request_id=4))
    play << FindTopic(4, parse_topic("t"), create=True, lookup=False)
    play >> TopicFound(4, False, URL, None)
    play << sent(
        CommandPartitionedTopicMetadataResponse(
            request_id=4, response=CommandPartitionedTopicMetadataResponse.Success, partitions=0
        )
    )
    play.over()


def test_a_client_may_ask_without_making_the_topic() -> None:
    play = Playbook() >> received(
        CommandPartitionedTopicMetadata(
            topic="t", request_id=4, metadata_auto_creation_enabled=False
        )
    )
    play << FindTopic(4, parse_topic("t"), create=False, lookup=False)
    play >> TopicFound(4, False, URL, Failure(pb.TopicNotFound, "none"))
    answer = play.heard().command
    assert answer.response == CommandPartitionedTopicMetadataResponse.Failed
    assert (answer.request_id, answer.error, answer.message) == (4, pb.TopicNotFound, "none")


def test_a_lookup_ends_here() -> None:
    play = Playbook() >> received(CommandLookupTopic(topic="t", request_id=4))
    play << FindTopic(4, parse_topic("t"), create=True, lookup=True)
    play >> TopicFound(4, True, URL, None)
    play << sent(
        CommandLookupTopicResponse(
            request_id=4,
            response=CommandLookupTopicResponse.Connect,
            brokerServiceUrl=URL,
            authoritative=True,
        )
    )
    play.over()


def test_without_an_advertised_address_clients_return_to_the_one_they_used() -> None:
    play = Playbook() >> received(CommandLookupTopic(topic="t", request_id=4))
    play.take(FindTopic)
    play >> TopicFound(4, True, URL, None, same_way=True)
    answer = play.heard().command
    assert (answer.brokerServiceUrl, answer.proxy_through_service_url) == (URL, True)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": ""}, pb.InvalidTopicName),
        ({"topic": "a/b/c/d"}, pb.TopicNotFound),
        ({"topic": "t", "advertised_listener_name": "test"}, pb.ServiceNotReady),
    ],
)
def test_a_lookup_that_cannot_be_is_refused(fields: dict[str, str], code: int) -> None:
    play = Playbook() >> received(CommandLookupTopic(request_id=4, **fields))
    answer = play.heard().command
    assert answer.response == CommandLookupTopicResponse.Failed
    assert (answer.request_id, answer.error) == (4, code)
    play.over()


def test_an_unknown_listener_is_refused_in_the_words_that_clients_know() -> None:
    command = CommandLookupTopic(topic="t", request_id=4, advertised_listener_name="test")
    play = Playbook() >> received(command)
    assert "the broker do not have test listener" in play.heard().command.message


def test_the_topics_of_a_namespace() -> None:
    play = Playbook() >> received(
        CommandGetTopicsOfNamespace(request_id=4, namespace="public/default", topics_hash="h")
    )
    play << ListTopics(4, "public/default", CommandGetTopicsOfNamespace.PERSISTENT, "h")
    topics = ["persistent://public/default/a", "persistent://public/default/b"]
    play >> TopicsListed(4, topics, "h")
    answer = play.heard().command
    assert (list(answer.topics), answer.changed, answer.filtered) == (topics, True, False)
    assert answer.topics_hash == hash_of_topics(reversed(topics))


@pytest.mark.parametrize(
    ("locals_", "expected"),
    [
        ([], "00000000"),
        (["abc"], "1f1bb154"),
        (["ap-partition-0", "abc"], "6db330b2"),
        (["zzz", "ap-partition-0", "ap-partition-1"], "00a0f146"),
    ],
)
def test_lists_have_the_hash_that_pulsars_clients_compute(
    locals_: list[str], expected: str
) -> None:
    """As Apache Pulsar answered it."""
    names = [f"persistent://public/ns254336114/{local}" for local in locals_]
    assert hash_of_topics(names) == expected


def test_a_list_that_the_client_has_is_not_sent_again() -> None:
    play = Playbook() >> TopicsListed(4, ["a"], hash_of_topics(["a"]))
    answer = play.heard().command
    assert (list(answer.topics), answer.changed) == ([], False)


def test_a_namespace_that_cannot_be_is_refused() -> None:
    play = Playbook() >> received(CommandGetTopicsOfNamespace(request_id=4, namespace="public"))
    assert play.heard().command.error == pb.InvalidTopicName
