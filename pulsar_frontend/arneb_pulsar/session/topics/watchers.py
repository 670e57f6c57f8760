"""Watchers of topics that come and go: WATCH_TOPIC_LIST and its end.

The server reports the topics of a watched namespace and their changes; a watcher is told of those
that match its pattern. Only clients that ask for a watcher know the commands that tell it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from arneb_pulsar.patterns import InvalidPattern, TopicPattern
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.session.fields import namespace_of, text_of
from arneb_pulsar.session.interface.effects import UnwatchTopics, WatchTopics
from arneb_pulsar.session.interface.events import TopicChanged, TopicsWatched
from arneb_pulsar.session.output import Output
from arneb_pulsar.session.topics.watched_names import WatchedNames
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

WATCHERS_MAX: Final = 200
"""Watchers of one connection; a client makes one for each regular expression it subscribes to. A
compiled expression may take 256 KiB (:mod:`arneb_pulsar.patterns`)."""

WATCHED_NAMES_MAX: Final = 200_000
"""Names that the watchers of one connection are told of, counted once for each watcher. Every
change computes the hash of them all: about 1 ms for so many."""


@dataclass(slots=True)
class _Watcher:
    namespace: str
    pattern: TopicPattern
    known_hash: str
    topics: WatchedNames = field(default_factory=WatchedNames)
    """The topics that the client was told of."""
    is_answered: bool = False
    """The first answer is out."""
    meanwhile: dict[str, bool] = field(default_factory=dict)
    """Topics that came (or went) before that, by name."""

    def __repr__(self) -> str:
        state = "answered" if self.is_answered else f"{len(self.meanwhile)} changes wait"
        return f"<_Watcher of {self.namespace} {self.pattern!r}, {len(self.topics)}, {state}>"


class TopicWatchers:
    """The watchers of one connection, by the ids that its client gave them."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._watchers: dict[int, _Watcher] = {}

    def __repr__(self) -> str:
        return f"<TopicWatchers: {len(self._watchers)}>"

    def watch(self, command: pb.CommandWatchTopicList) -> None:
        """WATCH_TOPIC_LIST."""
        if len(self._watchers) >= WATCHERS_MAX:
            raise RequestRefused(
                pb.TooManyRequests, f"At most {WATCHERS_MAX} watchers a connection"
            )
        if sum(len(each.topics) for each in self._watchers.values()) > WATCHED_NAMES_MAX:
            text = f"The watchers of a connection watch at most {WATCHED_NAMES_MAX} topics"
            raise RequestRefused(pb.TooManyRequests, text)
        namespace = namespace_of(command.namespace)
        text = text_of(command.topics_pattern, "topics_pattern")
        try:
            pattern = TopicPattern(text)
        except InvalidPattern as error:
            raise RequestRefused(pb.InvalidTopicName, f"Invalid topics pattern: {error}") from error
        known = text_of(command.topics_hash, "topics_hash")
        self._watchers[command.watcher_id] = _Watcher(namespace, pattern, known)
        wanted = WatchTopics(command.request_id, command.watcher_id, namespace, pattern)
        self._output.do(wanted)

    def watched(self, event: TopicsWatched) -> None:
        """Answer with the topics that there are."""
        watcher = self._watchers.get(event.watcher_id)
        if watcher is None:
            return
        watcher.topics, watcher.is_answered = WatchedNames(event.topics), True
        for topic, came in watcher.meanwhile.items():
            watcher.topics.change(topic, came=came)
        watcher.meanwhile.clear()
        topics_hash = watcher.topics.hash()
        listed: Sequence[str] = [] if topics_hash == watcher.known_hash else [*watcher.topics]
        reply = commands.topics_watched(event.request_id, event.watcher_id, listed, topics_hash)
        self._output.send(reply)

    def changed(self, event: TopicChanged) -> None:
        """Tell the watchers that a topic came or went."""
        for watcher_id, watcher in self._watchers.items():
            if watcher.namespace != event.namespace or not watcher.pattern.matches(event.topic):
                continue
            if not watcher.is_answered:
                watcher.meanwhile[event.topic] = event.came
                continue
            if not watcher.topics.change(event.topic, came=event.came):
                continue
            topics_hash = watcher.topics.hash()
            new, gone = ([event.topic], []) if event.came else ([], [event.topic])
            self._output.notify(commands.topics_changed(watcher_id, new, gone, topics_hash))

    def end(self, command: pb.CommandWatchTopicListClose) -> None:
        """WATCH_TOPIC_LIST_CLOSE."""
        watcher = self._watchers.pop(command.watcher_id, None)
        if watcher is not None:
            left = {each.namespace for each in self._watchers.values()}
            if watcher.namespace not in left:
                self._output.do(UnwatchTopics(watcher.namespace))
        self._output.send(commands.success(command.request_id))
