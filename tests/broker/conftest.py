"""Fakes of what the HTTP port reads."""

from dataclasses import dataclass, field

import pytest

import arneb.http.metrics.node_page
import arneb.metrics.single_figures  # noqa: F401
from arneb.metrics.library import library_version
from arneb_core.api.entries.position import position_at
from arneb_core.api.statistics import EngineStatistics
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.statistics import TopicStatistics

library_version()
"""What the first page of metrics does in a thread, while a mock clock would jump from timer to
timer until every deadline is over."""


@dataclass
class FakeTopic:
    """A topic that has nothing but statistics."""

    frozen: TopicStatistics

    def statistics(self) -> TopicStatistics:
        return self.frozen


@dataclass
class FakeCore:
    """A core that has nothing but topics and statistics."""

    topics: dict[str, FakeTopic] = field(default_factory=dict)
    full: bool = False

    def statistics(self) -> EngineStatistics:
        return EngineStatistics(
            topics=len(self.topics),
            commits_total=4,
            entries_total=30,
            commit_failures_total=1,
            waiting_bytes=0,
            cache_bytes=100,
            store_bytes=40_960,
            full=self.full,
        )

    def add(self, name: str, *subscriptions: SubscriptionStatistics) -> None:
        self.topics[name] = FakeTopic(
            TopicStatistics(
                name=name,
                durable=True,
                entries=10,
                messages=12,
                bytes=4096,
                ledgers=2,
                last=position_at(2, 4),
                appended_messages_total=30,
                appended_bytes_total=4000,
                subscriptions=subscriptions,
            )
        )


def a_subscription(name: str, backlog: int = 3) -> SubscriptionStatistics:
    return SubscriptionStatistics(
        name=name,
        type=SubscriptionType.SHARED,
        durable=True,
        consumers=1,
        backlog_entries=backlog,
        ready_entries=1,
        in_flight_messages=2,
        holes=0,
        mark_delete=position_at(1, -1),
        delivered_messages_total=9,
        acknowledged_entries_total=7,
        redelivered_entries_total=1,
    )


@pytest.fixture
def core() -> FakeCore:
    fake = FakeCore()
    fake.add("public/default/orders", a_subscription("amqp"), a_subscription("audit", 10))
    fake.add('public/default/odd"name\\\n')
    return fake
