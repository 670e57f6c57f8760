"""Stored statistics: a data directory's topics, read without a broker.

The rule: one snapshot is read as recovery reads it, and shows what a broker would find; consumers,
deliveries and everything else that a broker has only in memory are 0.
"""

from pathlib import Path

from arneb.http.api.documents import Document, topic_document
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.topics.statistics import TopicStatistics
from arneb_core.engine.catalog.recovery import StoredCursor, StoredTopic, recover
from arneb_core.store.reading.child_process import Say, read_in_child, speak
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment


def stored_topics(path: Path) -> list[Document]:
    """Return every durable topic in ``path`` by name, read in a process of its own.

    Raises :class:`StoreUnusable`; its kind :class:`StoreDamaged` means that the store could not be
    read to the end.
    """
    return list(read_in_child(__name__, path))


def stored_statistics(path: Path) -> list[TopicStatistics]:
    """Read the same in this process, which LMDB may end.

    Raises :class:`StoreUnusable`, and :class:`ValueError` when a record is damaged.
    """
    with open_snapshot_environment(path) as environment, environment.snapshot() as snapshot:
        stored = recover(snapshot)
    return [_topic(each) for each in sorted(stored.topics, key=lambda topic: topic.name)]


def _read(path: Path, at: Say, found: Say) -> None:
    at("what it says of its topics")
    for topic in stored_statistics(path):
        found(topic_document(topic))


def _topic(topic: StoredTopic) -> TopicStatistics:
    return TopicStatistics(
        name=topic.name,
        durable=topic.settings.durable,
        entries=topic.ledgers.entries,
        messages=topic.ledgers.messages,
        bytes=topic.ledgers.bytes,
        ledgers=len(topic.ledgers),
        last=topic.ledgers.last,
        appended_messages_total=0,
        appended_bytes_total=0,
        subscriptions=tuple(_subscription(cursor) for cursor in topic.cursors),
    )


def _subscription(cursor: StoredCursor) -> SubscriptionStatistics:
    backlog = cursor.acks.backlog
    return SubscriptionStatistics(
        name=cursor.name,
        type=None,
        durable=True,
        consumers=0,
        backlog_entries=backlog,
        ready_entries=backlog,
        in_flight_messages=0,
        holes=cursor.acks.holes,
        mark_delete=cursor.acks.mark_delete,
        delivered_messages_total=0,
        acknowledged_entries_total=0,
        redelivered_entries_total=0,
    )


if __name__ == "__main__":
    speak(_read)
