"""The broker context: data that nobody changes, over registries that follow the policies."""

from dataclasses import FrozenInstanceError, replace

import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.names import parse_topic
from arneb_pulsar.namespaces.rates import PublishRate
from arneb_pulsar.schemas.compatibility import Strategy

pytestmark = pytest.mark.real_time

TOPIC = parse_topic("t")


async def test_a_context_is_not_changed(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        with pytest.raises(FrozenInstanceError):
            running.context.clock = None  # type: ignore[misc, assignment]


async def test_registries_follow_a_change_of_policies_at_once(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        context, topic = running.context, running.core.topics[TOPIC.core_name]
        assert context.deduplications.of(topic) is None
        assert context.throttles.of(topic) is None
        assert context.schemas.strategy(TOPIC) is Strategy.FULL
        await context.namespaces.change_namespace(
            TOPIC.namespace,
            lambda policies: replace(
                policies,
                deduplication=True,
                publish_rate=PublishRate(10, -1),
                schema_compatibility="BACKWARD",
            ),
        )
        assert context.deduplications.of(topic) is not None
        assert context.throttles.of(topic) is not None
        assert context.schemas.strategy(TOPIC) is Strategy.BACKWARD
