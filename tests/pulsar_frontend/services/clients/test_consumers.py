"""The registry of consumers against a plain list, and who is told through it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.services.fakes import (
    FakeConnection,
    FakeConsumer,
    FakeTopic,
    attached,
)

from arneb_pulsar.services.clients.consumers import ClientConsumer, ConsumerRegistry
from arneb_pulsar.session.interface.events import EndReached

TOPICS: list[Any] = [FakeTopic("a"), FakeTopic("a", 2), FakeTopic("b", 3)]
"""Two of one name: one was deleted and recreated."""
SUBSCRIPTIONS: list[Any] = [FakeConsumer("s"), FakeConsumer("s"), FakeConsumer("other")]
CONNECTIONS = [FakeConnection(f"client:{number}") for number in range(3)]

STEP = st.tuples(
    st.booleans(),
    st.sampled_from(CONNECTIONS),
    st.sampled_from(TOPICS),
    st.sampled_from(SUBSCRIPTIONS),
)


@given(st.lists(STEP, max_size=30))
def test_the_registry_holds_the_consumers_that_have_not_left(
    steps: list[tuple[bool, FakeConnection, Any, Any]],
) -> None:
    registry, present = ConsumerRegistry(), list[ClientConsumer]()
    for key, (comes, connection, topic, subscription) in enumerate(steps):
        if comes or not present:
            present.append(attached(connection, topic, subscription, key))
            registry.add(present[-1])
        else:
            registry.remove(present.pop(key % len(present)))
        for each in TOPICS:
            expected = [one for one in present if one.topic is each]
            assert sorted(map(id, registry.of(each))) == sorted(map(id, expected))
        for name, subscription_name in (("a", "s"), ("a", "other"), ("b", "s")):
            expected_connections = {
                one.connection
                for one in present
                if (one.topic.name, one.subscription.name) == (name, subscription_name)
            }
            found = list(registry.connections(name, subscription_name))
            assert len(found) == len(set(found))
            assert set(found) == expected_connections
        assert bool(registry._by_topic) == bool(present)


def test_the_end_of_a_topic_reaches_the_consumers_of_that_subscription_only() -> None:
    registry, (one, other) = ConsumerRegistry(), (FakeConnection(), FakeConnection())
    topic, mine, same_name = TOPICS[0], SUBSCRIPTIONS[0], SUBSCRIPTIONS[1]
    registry.add(attached(one, topic, mine, 7))
    registry.add(attached(other, topic, same_name, 8))
    registry.end_reached(topic, mine)
    assert one.events == [EndReached(7)]  # type: ignore[arg-type]
    assert not other.events


def test_a_disconnected_consumer_is_detached_and_notified() -> None:
    connection = FakeConnection()
    consumer = attached(connection, TOPICS[0], SUBSCRIPTIONS[0], 5)
    consumer.disconnect()
    assert consumer.consumer.is_detached  # type: ignore[attr-defined]
    assert connection.closed_consumers == [5]
