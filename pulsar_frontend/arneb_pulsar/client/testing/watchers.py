"""Watchers: tells one connection's watchers about new topics of a namespace.

The rule: as in Apache Pulsar's brokers, a pattern that is too long is refused, and a watcher is
told only of topics that match its pattern.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.message import Message as Command

from arneb_pulsar.client.errors import NotAllowed
from arneb_pulsar.client.testing.answers import Broker
from arneb_pulsar.names import parse_topic
from arneb_pulsar.patterns import TopicPattern
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)


class FakeWatchers:
    """The watchers of one connection, by the ids that its client gave them."""

    def __init__(self, broker: Broker, say: Callable[[Command], None]) -> None:
        self._broker = broker
        self._say = say
        self._watchers: dict[int, FakeWatcher] = {}

    def __repr__(self) -> str:
        return f"<FakeWatchers: {len(self._watchers)}>"

    def answer(self, command: Any) -> Command | None:
        """Answer a command that begins or ends a watch; return None for any other. Raises
        :class:`NotAllowed`."""
        match command:
            case CommandWatchTopicList():
                return self._begin(command)
            case CommandWatchTopicListClose():
                self._end(command.watcher_id)
                return CommandSuccess(request_id=command.request_id)
        return None

    def end_all(self) -> None:
        """End all watches, when the connection has ended."""
        for number in tuple(self._watchers):
            self._end(number)

    def _begin(self, command: CommandWatchTopicList) -> Command:
        bound = self._broker.pattern_characters_max
        if len(command.topics_pattern) > bound:
            raise NotAllowed(f"Pattern longer than maximum: {bound}")
        number, namespace = command.watcher_id, command.namespace
        pattern = TopicPattern(command.topics_pattern)
        self._end(number)
        watcher = FakeWatcher(namespace, pattern, partial(self._tell, number))
        self._watchers[number] = watcher
        self._broker.watchers.append(watcher)
        there = self._broker.topics(namespace, CommandGetTopicsOfNamespace.PERSISTENT)
        return CommandWatchTopicListSuccess(
            request_id=command.request_id,
            watcher_id=number,
            topic=pattern.choose(there),
            topics_hash="",
        )

    def _tell(self, number: int, topic: str) -> None:
        self._say(CommandWatchTopicUpdate(watcher_id=number, new_topics=[topic], topics_hash=""))

    def _end(self, number: int) -> None:
        if (watcher := self._watchers.pop(number, None)) is not None:
            self._broker.watchers.remove(watcher)


class FakeWatcher:
    """The watcher that one WATCH_TOPIC_LIST began."""

    def __init__(self, namespace: str, pattern: TopicPattern, tell: Callable[[str], None]) -> None:
        self._namespace = namespace
        self._pattern = pattern
        self._tell = tell

    def __repr__(self) -> str:
        return f"<FakeWatcher of {self._namespace} {self._pattern!r}>"

    def on_made(self, topic: str) -> None:
        """See ``Broker.watchers``."""
        name = parse_topic(topic)
        is_here = str(name.namespace) == self._namespace and name.is_persistent
        if is_here and self._pattern.matches(topic):
            self._tell(topic)
