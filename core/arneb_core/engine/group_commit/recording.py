"""Recording: the histories of an engine's subscriptions, written to their topics.

The rule: a history goes with the commit that makes its acknowledgements durable, or with one before
or after it when that one has no room; no client ever waits for it. Each history has at most one
request under way, so its batches are in order.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, SubscriptionNotFound, TopicExists, TopicFenced
from arneb_core.api.topics.history import HISTORY_SETTINGS, history_entry, history_topic
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.subscription.state.history import History

logger = logging.getLogger(__name__)


class RecordingEngine(Protocol):
    """What histories ask of the engine."""

    now_ms: Callable[[], int]

    def topic(self, name: str) -> LogTopic:
        """The topic of that name."""

    async def create_topic(self, name: str, settings: TopicSettings | None = None) -> LogTopic:
        """Create a topic."""

    def history_due(self, recorder: "Recorder") -> None:
        """Have the recorder's history written with the next flush of cursors."""


class Recorder:
    """Writes one subscription's history."""

    def __init__(
        self, engine: RecordingEngine, subscription: LogSubscription, topic: LogTopic
    ) -> None:
        self._engine = engine
        self._subscription = subscription
        self._topic = topic
        started_ms = engine.now_ms()
        self.history = History(
            subscription.topic.name,
            subscription.name,
            str(started_ms),
            subscription.topic.log.ledgers.next_append,
            engine.now_ms,
            self._due,
        )
        self._under_way: list[bytes] = []
        subscription.machine.state.history = self.history

    def __repr__(self) -> str:
        return f"<Recorder of {self.history!r}, {len(self._under_way)} batches under way>"

    def request(self) -> Request | None:
        """Return what is to be written, as a request; None when there is nothing now."""
        if self._under_way or not self.history:
            return None
        self._under_way = self.history.take(self._subscription.mark_delete)
        now_ms = self._engine.now_ms()
        entries = [history_entry(batch, now_ms) for batch in self._under_way]
        return Request(
            appended=self._written,
            appends=[(self._topic, entries, len(entries))],
            entries=len(entries),
            size=sum(map(len, entries)),
        )

    def _due(self) -> None:
        if not self._under_way:
            self._engine.history_due(self)

    def _written(self, error: CommitFailed | None, first: Position) -> None:
        batches, self._under_way = self._under_way, []
        if isinstance(error, TopicFenced):
            logger.warning("the history of %r ends: its topic is gone", self._subscription)
            self._subscription.machine.state.history = None
            return
        if error is not None:
            self.history.untake(batches)
        if self.history:
            self._engine.history_due(self)


async def keep_history(engine: RecordingEngine, topic: Topic, name: str) -> None:
    """Record what happens to the subscription ``name`` of ``topic`` from now on; see
    :meth:`arneb_core.api.core.Core.keep_history`."""
    subscription = topic.subscriptions.get(name)
    if not isinstance(subscription, LogSubscription):
        raise SubscriptionNotFound(f"{topic.name} has no subscription {name!r}")
    if subscription.machine.state.history is not None:
        return
    where = history_topic(topic.name, name)
    with suppress(TopicExists):
        await engine.create_topic(where, HISTORY_SETTINGS)
    if subscription.machine.state.history is None:  # nobody was faster
        Recorder(engine, subscription, engine.topic(where))
