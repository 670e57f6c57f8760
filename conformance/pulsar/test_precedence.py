"""Policies on three levels: a topic's value overrides its namespace's, which overrides the
broker's, and the effective value can be queried.

The brokers of these scenarios have defaults other than the usual ones, under Pulsar's names.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.admin import Admin, Refused
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import SILENCE_MS, numbers, send

SHOWN_WITHIN_S: Final = 20.0
"""How long a value may take to be shown; Apache Pulsar keeps policies of topics in another
topic."""

SETTLES_S: Final = 2.0
"""How long a policy takes to take effect there, where nothing shows it."""

BROKER: Final[dict[str, object]] = {
    "defaultRetentionTimeInMinutes": 11,
    "defaultRetentionSizeInMB": 12,
    "ttlDurationDefaultInSeconds": 10_000,
    "backlogQuotaDefaultLimitBytes": 1_000_000,
    "backlogQuotaDefaultLimitSecond": 100,
    "backlogQuotaDefaultRetentionPolicy": "producer_exception",
    "delayedDeliveryEnabled": True,
    "delayedDeliveryMaxDelayInMillis": 40_000,
    "maxPublishRatePerTopicInMessages": 5_000,
    "dispatchThrottlingRatePerTopicInMsg": 6_000,
    "dispatchThrottlingRatePerTopicInByte": 7_000_000,
    "dispatchThrottlingRatePerSubscriptionInMsg": 8_000,
    "subscribeThrottlingRatePerConsumer": 900,
    "subscribeRatePeriodPerConsumerInSecond": 20,
    "subscriptionTypesEnabled": ["Exclusive", "Shared"],
    "isSchemaValidationEnforced": False,
    "maxProducersPerTopic": 4,
    "maxConsumersPerTopic": 5,
    "maxConsumersPerSubscription": 3,
    "maxSubscriptionsPerTopic": 4,
    "maxUnackedMessagesPerConsumer": 1_000,
    "maxUnackedMessagesPerSubscription": 2_000,
    "brokerDeduplicationEnabled": False,
    "brokerDeleteInactiveTopicsEnabled": True,
    "brokerDeleteInactiveTopicsMode": "delete_when_subscriptions_caught_up",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": 3_000,
    "allowAutoSubscriptionCreation": True,
}
"""Under the names in ``broker.conf``."""


def in_toml(value: object) -> str:
    """The value in the syntax of Arneb's configuration file."""
    return json.dumps(value)


OF_TOPICS_TABLE: Final = frozenset(
    {
        "maxProducersPerTopic",
        "maxConsumersPerTopic",
        "maxConsumersPerSubscription",
        "maxSubscriptionsPerTopic",
        "maxUnackedMessagesPerConsumer",
        "maxUnackedMessagesPerSubscription",
        "brokerDeduplicationEnabled",
        "brokerDeleteInactiveTopicsEnabled",
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
        "allowAutoSubscriptionCreation",
    }
)
"""Settings that Arneb has in ``[pulsar]``; the others are in ``[pulsar.defaults]``."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, with the values set for the broker, the namespace and the topic."""

    path: str
    """The path below the topic, and below the namespace unless ``above`` is given."""
    broker: Any
    namespace: Any
    topic: Any
    above: str = ""
    verb: str = "POST"
    """The method that sets it for a namespace."""
    in_query: bool = False
    """Whether the topic's value is a query parameter."""


def rate(messages: int, size: int) -> dict[str, Any]:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }


def retention(minutes: int, size: int) -> dict[str, int]:
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": size}


def subscribes(count: int, period_s: int) -> dict[str, int]:
    return {"subscribeThrottlingRatePerConsumer": count, "ratePeriodInSecond": period_s}


def inactive(seconds: int, mode: str) -> dict[str, Any]:
    return {
        "inactiveTopicDeleteMode": f"delete_when_{mode}",
        "maxInactiveDurationSeconds": seconds,
        "deleteWhileInactive": True,
    }


def delayed(tick_ms: int, delay_ms_max: int) -> dict[str, Any]:
    return {"tickTime": tick_ms, "active": True, "maxDeliveryDelayInMillis": delay_ms_max}


def persistence(mark_delete_rate: float) -> dict[str, Any]:
    return {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": mark_delete_rate,
    }


def may_subscribe(allowed: bool) -> dict[str, bool]:
    return {"allowAutoSubscriptionCreation": allowed}


POLICIES: Final = (
    Policy("retention", retention(11, 12), retention(21, 22), retention(31, 32)),
    Policy("messageTTL", 10_000, 10_001, 10_002, in_query=True),
    Policy(
        "inactiveTopicPolicies",
        inactive(3_000, "subscriptions_caught_up"),
        inactive(3_001, "no_subscriptions"),
        inactive(3_002, "subscriptions_caught_up"),
    ),
    Policy("compactionThreshold", 0, 30_000_001, 30_000_002, verb="PUT"),
    Policy(
        "autoSubscriptionCreation", may_subscribe(True), may_subscribe(False), may_subscribe(True)
    ),
    Policy("dispatchRate", rate(6_000, 7_000_000), rate(6_001, -1), rate(-1, 6_002)),
    Policy("subscriptionDispatchRate", rate(8_000, 0), rate(8_001, -1), rate(8_002, -1)),
    Policy("subscribeRate", subscribes(900, 20), subscribes(901, 21), subscribes(902, 22)),
    Policy("maxProducers", 4, 5, 6, "maxProducersPerTopic"),
    Policy("maxConsumers", 5, 6, 7, "maxConsumersPerTopic"),
    Policy("maxUnackedMessagesOnConsumer", 1_000, 0, 1_002, "maxUnackedMessagesPerConsumer"),
    Policy(
        "maxUnackedMessagesOnSubscription", 2_000, 2_001, 0, "maxUnackedMessagesPerSubscription"
    ),
    Policy("delayedDelivery", delayed(1_000, 40_000), delayed(101, 40_001), delayed(102, 0)),
    Policy("persistence", persistence(1.0), persistence(1.5), persistence(2.5)),
    Policy("schemaValidationEnforced", False, True, False),
    Policy("deduplicationEnabled", False, True, False, "deduplication"),
    Policy("schemaCompatibilityStrategy", "FULL", "BACKWARD", "FORWARD", verb="PUT"),
)


@pytest.fixture(scope="module", params=["arneb", "pulsar"])
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The Pulsar and admin URLs of a broker with other defaults."""
    if request.param not in (request.config.getoption("pulsar") or ["arneb", "pulsar"]):
        pytest.skip("not selected by --pulsar")
    broker: Arneb | PulsarStandalone
    place = tmp_path_factory.mktemp(request.param)
    broker = _apache(place) if request.param == "pulsar" else _arneb(place)
    broker.start()
    try:
        if isinstance(broker, PulsarStandalone):
            yield broker.pulsar_url, broker.http_url
        else:
            yield broker.pulsar_url, broker.admin_url
    finally:
        broker.stop()


def _arneb(place: Path) -> Arneb:
    tables = {"pulsar": "", "pulsar.defaults": ""}
    for name, value in BROKER.items():
        table = "pulsar" if name in OF_TOPICS_TABLE else "pulsar.defaults"
        tables[table] += f"{name} = {in_toml(value)}\n"
    settings = "\n".join(f"[{table}]\n{lines}" for table, lines in tables.items())
    return Arneb(place, listeners=["pulsar", "http-pulsar"], settings=settings)


def _apache(place: Path) -> PulsarStandalone:
    own = {
        name: ",".join(value) if isinstance(value, list) else str(value).lower()
        for name, value in BROKER.items()
    }
    return PulsarStandalone(
        place,
        forceDeleteNamespaceAllowed="true",
        delayedDeliveryTickTimeMillis=1_000,
        **own,
    )


@pytest.fixture
def admin(urls: tuple[str, str]) -> Admin:
    return Admin(urls[1])


@pytest.fixture
def client(urls: tuple[str, str]) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(urls[0], operation_timeout_seconds=5, logger=quiet)
    yield made
    made.close()


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace for one scenario, with a topic in it."""

    admin: Admin
    namespace: str
    path: str
    topic: str

    def said_of_namespace(self, policy: Policy, value: Any) -> None:
        """Set the namespace's value; None removes it."""
        path = f"{self.namespace}/{policy.above or policy.path}"
        if value is not None:
            self.admin.call(policy.verb, path, value)
        elif policy.path == "schemaCompatibilityStrategy":
            self.admin.put(path, "UNDEFINED")
        else:
            self.admin.delete(path)

    def said_of_topic(self, policy: Policy, value: Any) -> None:
        """Set the topic's value; None removes it."""
        path = f"{self.path}/{policy.path}"
        if value is None:
            self.admin.delete(path)
        elif policy.in_query:
            self.admin.post(path, **{policy.path: str(value)})
        else:
            self.admin.call(
                "PUT" if policy.verb == "PUT" and value in STRATEGIES else "POST", path, value
            )

    def applied(self, policy: Policy, wanted: Any) -> Any:
        """The effective value that is shown in the end."""
        end = time.monotonic() + SHOWN_WITHIN_S
        while True:
            found = self.admin.get(f"{self.path}/{policy.path}", applied="true")
            if found == wanted or time.monotonic() > end:
                return found
            time.sleep(0.1)


STRATEGIES: Final = ("BACKWARD", "FORWARD", "FULL")


@pytest.fixture
def place(admin: Admin, name: Named) -> Iterator[Place]:
    namespace = name("ns")
    made = Place(
        admin,
        f"/admin/v2/namespaces/public/{namespace}",
        f"/admin/v2/persistent/public/{namespace}/t",
        f"persistent://public/{namespace}/t",
    )
    admin.put(made.namespace, {})
    admin.put(made.path)
    yield made
    admin.delete(made.namespace, force="true")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.path)
def test_what_is_said_nearest_is_shown_to_hold(place: Place, policy: Policy) -> None:
    assert place.applied(policy, policy.broker) == policy.broker
    place.said_of_topic(policy, policy.topic)
    assert place.applied(policy, policy.topic) == policy.topic
    place.said_of_namespace(policy, policy.namespace)
    assert place.applied(policy, policy.topic) == policy.topic
    if policy.path == "schemaValidationEnforced":
        return  # a topic's value of this policy cannot be removed
    place.said_of_topic(policy, None)
    assert place.applied(policy, policy.namespace) == policy.namespace
    place.said_of_namespace(policy, None)
    assert place.applied(policy, policy.broker) == policy.broker


def quota(size: int, seconds: int, policy: str) -> dict[str, Any]:
    return {"limitSize": size, "limitTime": seconds, "policy": policy}


def test_backlog_quotas_of_three_levels(place: Place) -> None:
    def shown() -> dict[str, tuple[int, int, str]]:
        found = place.admin.get(f"{place.path}/backlogQuotaMap", applied="true")
        return {
            kind: (each["limitSize"], each["limitTime"], each["policy"])
            for kind, each in found.items()
        }

    of_broker = (1_000_000, 100, "producer_exception")
    assert shown() == dict.fromkeys(("destination_storage", "message_age"), of_broker)
    for path, size in ((place.namespace, 2_000), (place.path, 3_000)):
        for kind in ("destination_storage", "message_age"):
            place.admin.post(
                f"{path}/backlogQuota",
                quota(size, size * 10, "producer_request_hold"),
                backlogQuotaType=kind,
            )
        wanted = (size, size * 10, "producer_request_hold")
        end = time.monotonic() + SHOWN_WITHIN_S
        while shown()["message_age"] != wanted and time.monotonic() < end:
            time.sleep(0.1)
        assert shown() == dict.fromkeys(("destination_storage", "message_age"), wanted)


@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_more_is_kept_than_may_wait(place: Place, level: str) -> None:
    """Retention is larger than the backlog quota, whichever is set first."""
    path = place.namespace if level == "namespace" else place.path
    megabyte = 1024 * 1024
    place.admin.post(f"{path}/retention", retention(100, 5))
    for size, status in ((5 * megabyte, 412), (5 * megabyte - 1, 204)):
        assert status == _status(
            place.admin, f"{path}/backlogQuota", quota(size, -1, "producer_exception")
        )
    time.sleep(SETTLES_S)
    for megabytes, status in ((4, 412), (5, 204), (-1, 204)):
        assert status == _status(place.admin, f"{path}/retention", retention(100, megabytes))


def _status(admin: Admin, path: str, body: object) -> int:
    try:
        admin.post(path, body)
    except Refused as refused:
        return refused.status
    return 204


def refusal(attempt: Callable[[], Any]) -> str:
    """The error with which an attempt is refused in the end: Apache Pulsar informs its topics
    gradually."""
    end = time.monotonic() + SHOWN_WITHIN_S
    while time.monotonic() < end:
        try:
            attempt().close()
        except pulsar.AlreadyClosed:
            pass
        except pulsar.PulsarException as refused:
            return type(refused).__name__
        time.sleep(0.2)
    return "nothing"


def comes(attempt: Callable[[], Any]) -> Any:
    """The result of an attempt that succeeds in the end."""
    end = time.monotonic() + SHOWN_WITHIN_S
    while True:
        try:
            return attempt()
        except pulsar.PulsarException:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@pytest.mark.parametrize(
    ("path", "above", "most"),
    [
        ("maxProducers", "maxProducersPerTopic", 6),
        ("maxConsumers", "maxConsumersPerTopic", 6),
        ("maxConsumersPerSubscription", "", 5),
        ("maxSubscriptionsPerTopic", "", 6),
    ],
)
def test_the_nearest_policy_decides_who_may_connect(
    place: Place, client: pulsar.Client, path: str, above: str, most: int
) -> None:
    """The broker admits a few, the namespace 1, the topic 2, and finally the topic has no limit.
    Then ``most`` are admitted, which is as many as the broker's other limits allow."""
    counted = itertools.count()

    def one() -> Any:
        number = next(counted)
        if path == "maxProducers":
            return client.create_producer(place.topic)
        kind = pulsar.ConsumerType.Shared
        if path == "maxConsumers":
            return client.subscribe(place.topic, f"s{number % 3}", kind)
        if path == "maxConsumersPerSubscription":
            return client.subscribe(place.topic, "s", kind)
        consumer = client.subscribe(place.topic, f"s{number}", kind)
        consumer.close()
        return consumer

    by = {"maxProducers": "ProducerBusy", "maxSubscriptionsPerTopic": "NotAllowedError"}
    refused = by.get(path, "ConsumerBusy")
    limit = BROKER[above or path]
    assert isinstance(limit, int)
    there = [one() for _ in range(limit)]
    assert refusal(one) == refused
    for number, each in enumerate(there[1:], 1):
        if path == "maxSubscriptionsPerTopic":
            place.admin.delete(f"{place.path}/subscription/s{number}")
        else:
            each.close()
    place.admin.post(f"{place.namespace}/{above or path}", 1)
    time.sleep(SETTLES_S)
    assert refusal(one) == refused
    place.admin.post(f"{place.path}/{path}", 2)
    time.sleep(SETTLES_S)
    comes(one)
    assert refusal(one) == refused
    place.admin.post(f"{place.path}/{path}", 0)
    time.sleep(SETTLES_S)
    assert most > limit
    for _ in range(most - 2):
        comes(one)


def test_types_of_subscriptions_of_three_levels(place: Place, client: pulsar.Client) -> None:
    """Except Key_Shared, which cannot be allowed if the broker does not allow it."""

    def attempt(kind: pulsar.ConsumerType) -> Callable[[], Any]:
        return lambda: client.subscribe(place.topic, f"s-{kind.name}", kind)

    shared, keyed, failover = (
        pulsar.ConsumerType.Shared,
        pulsar.ConsumerType.KeyShared,
        pulsar.ConsumerType.Failover,
    )
    assert refusal(attempt(failover)) == "NotAllowedError"
    attempt(shared)().close()
    allowed = ["Failover", "Key_Shared"]
    place.admin.post(f"{place.namespace}/subscriptionTypesEnabled", allowed)
    comes(attempt(failover)).close()
    assert refusal(attempt(shared)) == "NotAllowedError"
    assert refusal(attempt(keyed)) == "NotAllowedError"
    place.admin.post(f"{place.path}/subscriptionTypesEnabled", ["Shared", "Key_Shared"])
    comes(attempt(shared)).close()
    assert refusal(attempt(failover)) == "NotAllowedError"
    assert refusal(attempt(keyed)) == "NotAllowedError"


@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_rate_that_bounds_nothing_does_not_lift_one_from_above(
    place: Place, client: pulsar.Client, policy: str
) -> None:
    consumer = client.subscribe(place.topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(place.topic, batching_enabled=False)
    place.admin.post(f"{place.namespace}/{policy}", rate(20, -1))
    place.admin.post(f"{place.path}/{policy}", rate(-1, -1))
    time.sleep(3)
    send(producer, numbers(120))
    began = time.monotonic()
    got = 0
    while time.monotonic() - began < 3.0:
        try:
            consumer.receive(SILENCE_MS)
            got += 1
        except pulsar.Timeout:
            continue
    assert 50 <= got <= 110, "20 a second, and at first a second's worth"


@pytest.mark.parametrize("level", ["broker", "namespace", "topic"])
def test_producers_are_held_to_the_nearest_rate(
    place: Place, client: pulsar.Client, level: str
) -> None:
    def publish_rate(messages: int) -> dict[str, int]:
        return {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}

    producer = client.create_producer(place.topic, batching_enabled=False)
    if level != "broker":
        place.admin.post(f"{place.namespace}/publishRate", publish_rate(20))
    if level == "topic":
        place.admin.post(f"{place.path}/publishRate", publish_rate(40))
    time.sleep(3)
    send(producer, numbers(1))
    began = time.monotonic()
    send(producer, numbers(160))
    took_s = time.monotonic() - began
    assert {"broker": 0, "namespace": 5, "topic": 2}[level] <= took_s
    assert took_s <= {"broker": 3, "namespace": 10, "topic": 5}[level]


def test_what_is_no_policy_is_refused_at_each_level(place: Place) -> None:
    for path in (f"{place.namespace}/maxProducersPerTopic", f"{place.path}/maxProducers"):
        with pytest.raises(Refused) as caught:
            place.admin.post(path, -1)
        assert caught.value.status == 412
