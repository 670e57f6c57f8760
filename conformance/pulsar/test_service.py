"""Finding the broker: by HTTP, by one of several addresses, by a service info provider."""

import logging
import time
from collections.abc import Callable

import pulsar
import pytest
from conformance.brokers.process import free_port
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import BrokerUrls
from conformance.pulsar.helpers import WITHIN_MS, numbers, payloads, send, take

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
CHECKS_MS = 200
"""How often a client checks whether its cluster is available, in milliseconds."""


def nowhere() -> str:
    """An address where nothing listens."""
    return f"pulsar://127.0.0.1:{free_port()}"


def assert_works(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(10))
    assert payloads(take(consumer, 10)) == numbers(10)
    consumer.unsubscribe()


def test_lookups_may_go_by_http(broker_urls: BrokerUrls, admin: Admin, topic: str) -> None:
    assert broker_urls.admin
    client = pulsar.Client(broker_urls.admin, operation_timeout_seconds=30, logger=QUIET)
    assert client.get_service_info().service_url == broker_urls.admin
    assert_works(client, topic)
    admin.put(f"{local(topic)}-parted/partitions", 3)
    assert len(client.get_topic_partitions(f"{topic}-parted")) == 3
    assert_works(client, f"{topic}-parted-partition-1")
    client.close()


def test_one_address_of_several_is_enough(pulsar_url: str, topic: str) -> None:
    address = pulsar_url.removeprefix("pulsar://")
    client = pulsar.Client(f"{nowhere()},{address}", operation_timeout_seconds=30, logger=QUIET)
    assert_works(client, topic)
    client.close()


class Provider(pulsar.ServiceInfoProvider):  # type: ignore[misc]
    """Tells the client where the broker is, and later that it has moved."""

    def __init__(self, first: str) -> None:
        self._first = first
        self.update: Callable[[pulsar.ServiceInfo], None] | None = None
        self.is_closed = False

    def initial_service_info(self) -> pulsar.ServiceInfo:
        return pulsar.ServiceInfo(self._first)

    def initialize(self, on_service_info_update: Callable[[pulsar.ServiceInfo], None]) -> None:
        self.update = on_service_info_update

    def close(self) -> None:
        self.is_closed = True


def test_a_provider_says_where_the_broker_is(pulsar_url: str, topic: str) -> None:
    provider = Provider(pulsar_url)
    client = pulsar.Client(provider, operation_timeout_seconds=30, logger=QUIET)
    assert client.get_service_info().service_url == pulsar_url
    assert_works(client, topic)
    client.close()


def test_a_provider_may_change_its_mind(pulsar_url: str, topic: str) -> None:
    away = nowhere()
    provider = Provider(away)
    client = pulsar.Client(provider, operation_timeout_seconds=2, logger=QUIET)
    with pytest.raises((pulsar.ConnectError, pulsar.Timeout)):
        client.create_producer(topic)
    assert provider.update is not None
    provider.update(pulsar.ServiceInfo(pulsar_url))
    assert client.get_service_info().service_url == pulsar_url
    assert_works(client, topic)
    client.close()


def test_another_cluster_takes_over(pulsar_url: str, topic: str) -> None:
    choice = pulsar.AutoClusterFailover(
        pulsar.ServiceInfo(nowhere()),
        [pulsar.ServiceInfo(nowhere()), pulsar.ServiceInfo(pulsar_url)],
        check_interval_ms=CHECKS_MS,
    )
    client = pulsar.Client(choice, operation_timeout_seconds=30, logger=QUIET)
    end = time.monotonic() + WITHIN_MS / 1000
    while client.get_service_info().service_url != pulsar_url:
        assert time.monotonic() < end
        time.sleep(CHECKS_MS / 1000)
    assert_works(client, topic)
    client.close()


def test_several_threads_and_a_logger_of_ones_own(pulsar_url: str, topic: str) -> None:
    client = pulsar.Client(
        pulsar_url,
        io_threads=3,
        concurrent_lookup_requests=10,
        logger=logging.getLogger("conformance.pulsar"),
    )
    for number in range(5):
        assert_works(client, f"{topic}-{number}")
    client.close()
