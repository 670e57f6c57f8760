"""Options that make no sense are refused when they are made, whatever the type checker was told."""

from typing import Any

import pytest

from arneb_pulsar.client import (
    Batching,
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    SubscriptionType,
)
from arneb_pulsar.client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ConsumerOptions, {"queue_size": -1}),
        (ConsumerOptions, {"ack_group_s": -1}),
        (ConsumerOptions, {"ack_group_max": 0}),
        (ConsumerOptions, {"ack_timeout_s": -1}),
        (ConsumerOptions, {"negative_ack_delay_s": -1}),
        (ConsumerOptions, {"priority_level": -1}),
        (ConsumerOptions, {"partition_poll_s": 0}),
        (ConsumerOptions, {"start_rollback_s": -1}),
        (ConsumerOptions, {"read_compacted": True, "type": SubscriptionType.SHARED}),
        (ConsumerOptions, {"retry": True}),
        (ConsumerOptions, {"name": 5}),
        (ConsumerOptions, {"properties": {"a": 1}}),
        (ConsumerOptions, {"subscription_properties": "a=b"}),
        (ProducerOptions, {"pending_max": 0}),
        (ProducerOptions, {"send_timeout_s": -1}),
        (ProducerOptions, {"chunk_bytes_max": -1}),
        (ProducerOptions, {"initial_sequence_id": -1}),
        (ProducerOptions, {"name": b"n"}),
        (ProducerOptions, {"properties": {1: "a"}}),
        (Batching, {"messages_max": 0}),
        (Batching, {"bytes_max": 0}),
        (Batching, {"delay_s": -1}),
        (ClientOptions, {"connections_per_broker": 0}),
        (ClientOptions, {"memory_bytes_max": -1}),
        (ClientOptions, {"operation_timeout_s": 0}),
        (ClientOptions, {"connect_timeout_s": 0}),
        (ClientOptions, {"statistics_interval_s": -1}),
        (ClientOptions, {"backoff_initial_s": 2.0, "backoff_cap_s": 1.0}),
    ],
    ids=str,
)
def test_it_is_refused(kind: Any, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        kind(**wrong)
