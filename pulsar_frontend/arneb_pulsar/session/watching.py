"""Watching topics come and go: WATCH_TOPIC_LIST and its end.

The shell tells which topics of a watched namespace there are and how that changes; which of
them a watcher is told follows from its pattern. Only clients that ask for a watcher know the
commands that it is told by.
"""

from dataclasses import dataclass
from typing import Final

from arneb_pulsar.patterns import InvalidPattern, TopicPattern
from arneb_pulsar.session.effects import UnwatchTopics, WatchTopics
from arneb_pulsar.session.errors import Refused
from arneb_pulsar.session.events import TopicChanged, TopicsWatched
from arneb_pulsar.session.fields import namespace_of, text_of
from arneb_pulsar.session.finding import hash_of_topics
from arneb_pulsar.session.outlet import Outlet
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

WATCHERS_MAX: Final = 1000
"""Of one connection; a client makes one for each regular expression that it consumes."""


@dataclass(slots=True)
class _Watcher:
    namespace: str
    pattern: TopicPattern
    known_hash: str
    topics: set[str]


class Watching:
    """The watchers of one connection, by the ids that its client gave them."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._watchers: dict[int, _Watcher] = {}

    def watch(self, command: pb.CommandWatchTopicList) -> None:
        """WATCH_TOPIC_LIST."""
        if len(self._watchers) >= WATCHERS_MAX:
            raise Refused(pb.TooManyRequests, f"At most {WATCHERS_MAX} watchers a connection")
        namespace = namespace_of(command.namespace)
        text = text_of(command.topics_pattern, "topics_pattern")
        try:
            pattern = TopicPattern(text)
        except InvalidPattern as error:
            raise Refused(pb.InvalidTopicName, f"Invalid topics pattern: {error}") from error
        known = text_of(command.topics_hash, "topics_hash")
        self._watchers[command.watcher_id] = _Watcher(namespace, pattern, known, set())
        self._outlet.do(WatchTopics(command.request_id, command.watcher_id, namespace))

    def watched(self, event: TopicsWatched) -> None:
        """These topics there are."""
        watcher = self._watchers.get(event.watcher_id)
        if watcher is None:
            return
        found = watcher.pattern.choose(event.topics)
        watcher.topics = set(found)
        topics_hash = hash_of_topics(found)
        told = [] if topics_hash == watcher.known_hash else found
        reply = commands.topics_watched(event.request_id, event.watcher_id, told, topics_hash)
        self._outlet.send(reply)

    def changed(self, event: TopicChanged) -> None:
        """A topic came or went."""
        for watcher_id, watcher in self._watchers.items():
            if watcher.namespace != event.namespace or not watcher.pattern.matches(event.topic):
                continue
            if event.came is (event.topic in watcher.topics):
                continue
            if event.came:
                watcher.topics.add(event.topic)
            else:
                watcher.topics.discard(event.topic)
            topics_hash = hash_of_topics(watcher.topics)
            new, gone = ([event.topic], []) if event.came else ([], [event.topic])
            self._outlet.send(commands.topics_changed(watcher_id, new, gone, topics_hash))

    def end(self, command: pb.CommandWatchTopicListClose) -> None:
        """WATCH_TOPIC_LIST_CLOSE."""
        watcher = self._watchers.pop(command.watcher_id, None)
        if watcher is not None:
            left = {each.namespace for each in self._watchers.values()}
            if watcher.namespace not in left:
                self._outlet.do(UnwatchTopics(watcher.namespace))
        self._outlet.send(commands.success(command.request_id))
