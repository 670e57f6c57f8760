"""Stamps, fitness to lead, and what a Pulsar cluster must provide."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.protocol.kit import EMPTY, at

from arneb_cluster.protocol.fitness import Unfit, judge
from arneb_cluster.protocol.requirements import advice, unmet
from arneb_cluster.protocol.stamps import SAMPLES, SkewWatch, Stamps
from arneb_cluster.protocol.values import NOWHERE, Applied, Link


@given(st.integers(0, 100), st.lists(st.integers(0, 200)))
def test_stamps_never_go_back(last_ms: int, clock: list[int]) -> None:
    stamps = Stamps(last_ms)
    given_out = [last_ms, *(stamps.now(each) for each in clock)]
    assert given_out == sorted(given_out)
    assert given_out[-1] == max([last_ms, *clock])


def test_a_slow_clock_is_noticed_at_once_and_a_fast_one_by_the_quickest_record() -> None:
    watch = SkewWatch()
    for _ in range(SAMPLES):
        watch.came(1_000, 1_400)
    assert (watch.skew_ms, watch.is_alarming) == (400, True)
    watch.came(1_000, 1_020)
    assert (watch.skew_ms, watch.is_alarming) == (20, False)
    watch.came(1_000, 850)
    assert (watch.skew_ms, watch.is_alarming) == (-150, True)
    assert not SkewWatch().is_alarming


APPLIED = Applied("h", Link(5, 1), at(7), Link(5, 1))


@pytest.mark.parametrize(
    ("applied", "history", "last", "holds_something", "expected"),
    [
        (None, None, NOWHERE, False, None),
        (None, None, NOWHERE, True, None),
        (None, "h", at(3), False, None),
        (None, "h", at(3), True, Unfit.NO_HISTORY),
        (EMPTY, "h", at(3), True, None),
        (APPLIED, "h", at(7), True, None),
        (APPLIED, None, at(7), True, None),
        (APPLIED, "x", at(9), True, Unfit.FOREIGN),
        (APPLIED, "h", at(6), True, Unfit.BEHIND),
        (APPLIED, None, NOWHERE, True, Unfit.BEHIND),
    ],
)
def test_a_topic_with_another_history_or_older_than_the_directory_is_refused(
    applied: Applied | None, history: str | None, last: Any, holds_something: bool,
    expected: Unfit | None,
) -> None:  # fmt: skip
    assert judge(applied, history, last, holds_something=holds_something) is expected


GOOD: dict[str, Any] = {
    "deduplicationEnabled": True,
    "message_ttl_in_seconds": 0,
    "backlog_quota_map": {},
    "inactive_topic_policies": {"deleteWhileInactive": False},
    "subscription_expiration_time_minutes": 0,
    "persistence": {"bookkeeperAckQuorum": 2},
}


def test_a_namespace_with_the_required_settings_is_accepted() -> None:
    assert list(unmet(GOOD, {})) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"deduplicationEnabled": False}, "deduplication to enabled; it is disabled"),
        ({"deduplicationEnabled": None}, "deduplication to enabled; it is disabled"),
        ({"deduplicationSnapshotIntervalSeconds": 0}, "snapshot interval to 120 s; it is 0 s"),
        ({"message_ttl_in_seconds": 60}, "message TTL to 0; it is 60 s"),
        ({"backlog_quota_map": {"destination_storage": {}}}, "none; it is destination_storage"),
        ({"inactive_topic_policies": {"deleteWhileInactive": True}}, "off; it is on"),
        ({"inactive_topic_policies": None}, "off; it is on"),
        ({"subscription_expiration_time_minutes": 5}, "expiration to 0; it is 5 min"),
        ({"persistence": {"bookkeeperAckQuorum": 1}}, "ack quorum to 2 or more; it is 1"),
    ],
)
def test_settings_that_could_lose_or_duplicate_are_named_with_the_right_ones(
    change: dict[str, Any], expected: str
) -> None:
    (found,) = unmet({**GOOD, **change}, {})
    assert str(found).startswith("set the namespace's ")
    assert expected in str(found)


def test_settings_that_the_namespace_leaves_open_are_the_brokers() -> None:
    broker = {
        "brokerDeduplicationEnabled": "true",
        "brokerDeduplicationSnapshotIntervalSeconds": "120",
        "brokerDeleteInactiveTopicsEnabled": "false",
        "managedLedgerDefaultAckQuorum": "2",
        "ttlDurationDefaultInSeconds": "0",
        "backlogQuotaDefaultLimitBytes": "-1",
        "subscriptionExpirationTimeMinutes": "0",
    }
    assert list(unmet({}, broker)) == []
    worse = {
        **broker,
        "ttlDurationDefaultInSeconds": "9",
        "backlogQuotaDefaultLimitGB": "10",
        "managedLedgerDefaultAckQuorum": "1",
        "subscriptionExpirationTimeMinutes": "3",
        "brokerDeduplicationSnapshotIntervalSeconds": "0",
    }
    assert len(list(unmet({}, worse))) == 5


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({}, "it is 10,"),
        ({"managedLedgerNewEntriesCheckDelayInMillis": "3"}, "it is 3,"),
        ({"managedLedgerNewEntriesCheckDelayInMillis": "0"}, None),
    ],
)
def test_brokers_that_make_readers_wait_are_named(
    broker: dict[str, str], expected: str | None
) -> None:
    lines = list(advice(broker))
    assert len(lines) == (expected is not None)
    assert expected is None or expected in lines[0]
