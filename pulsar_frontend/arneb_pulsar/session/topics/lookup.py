"""Lookup of topics: PARTITIONED_METADATA, LOOKUP and GET_TOPICS_OF_NAMESPACE.

One broker serves every topic, so a lookup always ends here. Clients count the request ids of
lookups and those of producers and consumers separately, and the two collide: a failure must be sent
in the response type of its request.
"""

from collections.abc import Iterable
from contextlib import suppress

from arneb_core.api.encoding.checksum import crc32c
from arneb_pulsar.patterns import InvalidPattern, TopicPattern
from arneb_pulsar.session.errors import Failure, RequestRefused
from arneb_pulsar.session.fields import namespace_of, text_of, topic_of
from arneb_pulsar.session.interface.effects import FindTopic, ListTopics
from arneb_pulsar.session.interface.events import TopicFound, TopicsListed
from arneb_pulsar.session.output import Output
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
)


class Lookup:
    """Answers what a client asks before it opens a producer or a consumer."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __repr__(self) -> str:
        return f"<Lookup over {self._output!r}>"

    def partitions(self, command: CommandPartitionedTopicMetadata) -> None:
        """PARTITIONED_METADATA."""
        request_id = command.request_id
        try:
            topic = topic_of(command.topic)
        except RequestRefused as refused:
            self._fail(request_id, lookup=False, failure=refused.failure)
            return
        create = command.metadata_auto_creation_enabled
        self._output.do(FindTopic(request_id, topic, create=create, lookup=False))

    def lookup(self, command: CommandLookupTopic) -> None:
        """LOOKUP."""
        request_id = command.request_id
        try:
            topic = topic_of(command.topic)
            listener = text_of(command.advertised_listener_name, "advertised_listener_name")
            if listener:
                # C++ clients do not close the connection on an error with this text.
                text = f"the broker do not have {listener} listener"
                raise RequestRefused(pb.ServiceNotReady, text)
        except RequestRefused as refused:
            self._fail(request_id, lookup=True, failure=refused.failure)
            return
        self._output.do(FindTopic(request_id, topic, create=True, lookup=True))

    def found(self, event: TopicFound) -> None:
        """The topic may be used here, or may not."""
        if event.failure is not None:
            self._fail(event.request_id, lookup=event.lookup, failure=event.failure)
        elif event.lookup:
            url, same_way = event.service_url, event.same_way
            self._output.send(commands.lookup_connect(event.request_id, url, same_way=same_way))
        else:
            self._output.send(commands.partitions(event.request_id, event.partitions))

    def topics(self, command: CommandGetTopicsOfNamespace) -> None:
        """GET_TOPICS_OF_NAMESPACE. Clients also apply their pattern themselves, so one that is
        invalid or too long is ignored."""
        pattern = None
        if text := text_of(command.topics_pattern, "topics_pattern"):
            with suppress(InvalidPattern):
                pattern = TopicPattern(text)
        self._output.do(
            ListTopics(
                request_id=command.request_id,
                namespace=namespace_of(command.namespace),
                mode=command.mode,
                known_hash=text_of(command.topics_hash, "topics_hash"),
                pattern=pattern,
            )
        )

    def listed(self, event: TopicsListed) -> None:
        """Send the list, or that it is the one the client knows."""
        topics = event.topics
        topics_hash = hash_of_topics(topics)
        if event.known_hash == topics_hash:
            self._output.send(commands.topics_unchanged(event.request_id, topics_hash))
            return
        self._output.send(
            commands.topics_of_namespace(
                event.request_id, topics, topics_hash, filtered=event.filtered
            )
        )

    def _fail(self, request_id: int, *, lookup: bool, failure: Failure) -> None:
        build = commands.lookup_failed if lookup else commands.partitions_failed
        self._output.send(build(request_id, failure.code, failure.text))


def hash_of_topics(topics: Iterable[str]) -> str:
    """Return Pulsar's hash of a list, which its clients compute too: CRC32C of the sorted names
    joined by commas, lowest byte first, in hexadecimal."""
    return crc32c(",".join(sorted(topics)).encode()).to_bytes(4, "little").hex()
