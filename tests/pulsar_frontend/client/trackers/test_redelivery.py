"""What asks for redelivery."""

from itertools import chain

import pytest

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff, redelivery_requests
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe

ENTRIES = [(1, number) for number in range(2_500)]


@pytest.mark.parametrize("kind", [CommandSubscribe.Shared, CommandSubscribe.Key_Shared])
def test_shared_subscriptions_ask_for_a_thousand_entries_at_a_time(kind: int) -> None:
    requests = list(redelivery_requests(ENTRIES, kind))
    assert [len(each) for each in requests] == [1_000, 1_000, 500]
    assert list(chain(*requests)) == ENTRIES


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Failover])
def test_others_can_only_ask_for_everything(kind: int) -> None:
    assert list(redelivery_requests(ENTRIES[:1], kind)) == [[]]


@pytest.mark.parametrize("kind", CommandSubscribe.SubType.values())
def test_an_empty_redelivery_is_not_requested(kind: int) -> None:
    assert list(redelivery_requests([], kind)) == []


def test_what_is_named_twice_is_asked_for_once() -> None:
    assert list(redelivery_requests([(1, 2), (1, 2)], CommandSubscribe.Shared)) == [[(1, 2)]]


def test_delays_grow_up_to_a_bound() -> None:
    backoff = RedeliveryBackoff(min_s=1.0, max_s=60.0, multiplier=2.0)
    delays = [backoff.delay_s(count) for count in (-1, 0, 1, 2, 5, 6, 1 << 40)]
    assert delays == [1.0, 1.0, 2.0, 4.0, 32.0, 60.0, 60.0]


@pytest.mark.parametrize("arguments", [(0.0, 1.0, 2.0), (2.0, 1.0, 2.0), (1.0, 2.0, 0.5)])
def test_a_backoff_that_means_nothing_is_refused(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        RedeliveryBackoff(*arguments)
