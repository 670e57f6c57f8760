"""Watchers of topics."""

import pytest
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_pulsar.session.interface.effects import ListTopics, UnwatchTopics, WatchTopics
from arneb_pulsar.session.interface.events import TopicChanged, TopicsListed, TopicsWatched
from arneb_pulsar.session.topics import watchers as watchers_module
from arneb_pulsar.session.topics.lookup import hash_of_topics
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SPACE = "public/default"
A1, A2, B = (f"persistent://{SPACE}/{name}" for name in ("a1", "a2", "b"))


def watching(*topics: str, known: str = "", watcher_id: int = 1) -> Playbook:
    play = Playbook()
    command = pb.CommandWatchTopicList(
        request_id=7,
        watcher_id=watcher_id,
        namespace=SPACE,
        topics_pattern="persistent://public/default/a.*",
        topics_hash=known,
    )
    play >> received(command) << WatchTopics(7, watcher_id, SPACE)
    play.over()
    chosen = [topic for topic in topics if topic.startswith(f"persistent://{SPACE}/a")]
    return play >> TopicsWatched(7, watcher_id, chosen)


def update(
    new: list[str], gone: list[str], left: list[str], watcher_id: int = 1
) -> pb.CommandWatchTopicUpdate:
    return pb.CommandWatchTopicUpdate(
        watcher_id=watcher_id, new_topics=new, deleted_topics=gone, topics_hash=hash_of_topics(left)
    )


def test_a_watcher_gets_the_topics_and_their_changes() -> None:
    play = watching(A1, B)
    play << sent(
        pb.CommandWatchTopicListSuccess(
            request_id=7, watcher_id=1, topic=[A1], topics_hash=hash_of_topics([A1])
        )
    )
    play >> TopicChanged(SPACE, A2, came=True) << sent(update([A2], [], [A1, A2]))
    play >> TopicChanged(SPACE, A2, came=True)
    play >> TopicChanged(SPACE, B, came=True)
    play >> TopicChanged("other/space", A1, came=False)
    play.over()
    play >> TopicChanged(SPACE, A1, came=False) << sent(update([], [A1], [A2]))
    play >> TopicChanged(SPACE, A1, came=False)
    play.over()


def test_a_list_that_is_known_is_not_sent() -> None:
    play = watching(A1, known=hash_of_topics([A1]))
    assert list(play.heard().command.topic) == []
    play >> TopicChanged(SPACE, A1, came=False) << sent(update([], [A1], []))


def test_what_changes_before_the_first_answer_is_part_of_it() -> None:
    command = pb.CommandWatchTopicList(
        request_id=7, watcher_id=1, namespace=SPACE, topics_pattern=f"{SPACE}/a.*"
    )
    play = Playbook() >> received(command)
    play << WatchTopics(7, 1, SPACE)
    play >> TopicChanged(SPACE, A2, came=True) >> TopicChanged(SPACE, A1, came=False)
    play.over()
    play >> TopicsWatched(7, 1, [A1])
    assert list(play.heard().command.topic) == [A2]
    play >> TopicChanged(SPACE, A2, came=False) << sent(update([], [A2], []))


def test_the_watchers_of_a_connection_share_a_bound_of_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchers_module, "WATCHED_NAMES_MAX", 2)
    play = watching(A1, A2)
    play.heard()
    more = pb.CommandWatchTopicList(request_id=8, watcher_id=2, namespace=SPACE, topics_pattern="a")
    play >> received(more)
    play.take(WatchTopics)
    play >> TopicsWatched(8, 2, [A1])
    play.heard()
    play >> received(more)
    assert play.heard().command.error == pb.TooManyRequests
    play.over()


def test_a_watcher_ends() -> None:
    play = watching(A1)
    play.heard()
    second = pb.CommandWatchTopicList(
        request_id=8, watcher_id=2, namespace=SPACE, topics_pattern="x"
    )
    play >> received(second) << WatchTopics(8, 2, SPACE)
    play >> received(pb.CommandWatchTopicListClose(request_id=9, watcher_id=1))
    play << sent(pb.CommandSuccess(request_id=9))
    play >> TopicsWatched(7, 1, [A1])
    play >> TopicChanged(SPACE, A2, came=True)
    play.over()
    play >> received(pb.CommandWatchTopicListClose(request_id=9, watcher_id=2))
    play << UnwatchTopics(SPACE) << sent(pb.CommandSuccess(request_id=9))
    play >> received(pb.CommandWatchTopicListClose(request_id=9, watcher_id=2))
    play << sent(pb.CommandSuccess(request_id=9))
    play.over()


@pytest.mark.parametrize("fields", [{"topics_pattern": "("}, {"namespace": "public"}])
def test_what_cannot_be_watched_is_refused(fields: dict[str, str]) -> None:
    values = {"namespace": SPACE, "topics_pattern": "a"} | fields
    play = Playbook() >> received(pb.CommandWatchTopicList(request_id=7, watcher_id=1, **values))
    answer = play.heard().command
    assert (answer.request_id, answer.error) == (7, pb.InvalidTopicName)
    play.over()


def test_lists_are_filtered_where_a_pattern_is_given() -> None:
    command = pb.CommandGetTopicsOfNamespace(
        request_id=4, namespace=SPACE, topics_pattern="public/default/a.*"
    )
    play = Playbook() >> received(command)
    pattern = play.take(ListTopics).pattern
    assert pattern is not None
    assert pattern.choose([A1, B]) == [A1]
    play >> TopicsListed(4, [A1], "", filtered=True)
    answer = play.heard().command
    assert (list(answer.topics), answer.filtered) == ([A1], True)
    assert answer.topics_hash == hash_of_topics([A1])
    play >> TopicsListed(4, [A1], hash_of_topics([A1]), filtered=True)
    assert not play.heard().command.changed
    bad = pb.CommandGetTopicsOfNamespace(request_id=4, namespace=SPACE, topics_pattern="(")
    play >> received(bad)
    assert play.take(ListTopics).pattern is None
