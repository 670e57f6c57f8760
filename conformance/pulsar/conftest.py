"""A Pulsar broker, clients of the official Python wheel, and names for the Pulsar scenarios.

``--pulsar`` chooses what they run against: ``arneb``, ``pulsar`` (Apache Pulsar standalone), or
both. ``ARNEB_PULSAR_URL`` names a broker that is already running (``ARNEB_AMQP_URL`` and
``ARNEB_ADMIN_URL`` are for the scenarios that need its other ports). Otherwise one is started for
the session, on free loopback ports and throw-away data.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pika
import pulsar
import pytest
from _pytest.mark.structures import ParameterSet
from conformance.brokers.arneb import Arneb
from conformance.brokers.arneb_cluster import MovingCluster, OwnCluster
from conformance.brokers.process import free_port
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.conftest import arneb_of
from conformance.pulsar.admin import Admin
from pika.adapters.blocking_connection import BlockingChannel

_numbers = itertools.count(1)

ANSWER_WITHIN_S = 30
"""The timeout of one request. Pulsar needs seconds for the first request of each kind, and more on
a busy machine."""

TRANSACTING: Final = {
    "transactionCoordinatorEnabled": "true",
    "systemTopicEnabled": "true",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
}
"""Settings that make Apache Pulsar do what Arneb does by default."""

Connect = Callable[..., pulsar.Client]
Named = Callable[[str], str]
Mortal = Callable[..., Arneb | OwnCluster]


@dataclass(frozen=True, slots=True)
class BrokerUrls:
    """Where one broker is reached; ``amqp`` and ``admin`` are empty if that is not known."""

    pulsar: str
    amqp: str
    admin: str
    is_pulsar: bool = False
    """Whether it is Apache Pulsar, for the few places named in ``DIFFERENCES.md``."""


def arneb_only(*values: object) -> ParameterSet:
    """Parameters of a scenario in which Apache Pulsar differs; ``DIFFERENCES.md`` says why."""
    return pytest.param(*values, marks=pytest.mark.arneb_only)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "arneb_only: Apache Pulsar differs, see DIFFERENCES.md")


@pytest.fixture(autouse=True)
def _leave_out(request: pytest.FixtureRequest) -> None:
    marked = request.node.get_closest_marker("arneb_only") and "broker_urls" in request.fixturenames
    if marked and request.getfixturevalue("broker_urls").is_pulsar:
        pytest.skip("Apache Pulsar differs: see DIFFERENCES.md")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture in ("broker_urls", "guarded"):
        if fixture in metafunc.fixturenames:
            names = metafunc.config.getoption("pulsar") or ["pulsar", "arneb"]
            if "ARNEB_PULSAR_URL" in os.environ:
                names = ["arneb"]
            metafunc.parametrize(fixture, names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker_urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerUrls]:
    """The broker of the session."""
    if request.param == "pulsar":
        if not PulsarStandalone.installed():
            pytest.fail("Apache Pulsar needs java and mvn: make client-tools")
        apache = PulsarStandalone(
            tmp_path_factory.mktemp("pulsar"),
            backlogQuotaCheckIntervalInSeconds=1,
            brokerDeleteInactiveTopicsFrequencySeconds=1,
            subscriptionExpiryCheckIntervalInMinutes=1,
            statsUpdateFrequencyInSecs=1,
            statsUpdateInitialDelayInSecs=1,
            forceDeleteNamespaceAllowed="true",
        )
        try:
            apache.start()
            yield BrokerUrls(apache.pulsar_url, "", apache.http_url, is_pulsar=True)
        finally:
            apache.stop()
        return
    if url := os.environ.get("ARNEB_PULSAR_URL"):
        amqp, admin = os.environ.get("ARNEB_AMQP_URL", ""), os.environ.get("ARNEB_ADMIN_URL", "")
        yield BrokerUrls(url, amqp, admin)
        return
    broker = arneb_of(
        request.config,
        tmp_path_factory.mktemp("arneb"),
        listeners=["amqp", "pulsar", "http-pulsar"],
        settings="[pulsar]\nbacklog_quota_check_s = 1\nstatistics_s = 1\n"
        "inactive_check_s = 1\ninactive_topic_s = 60\n",
    )
    try:
        broker.start()
        yield BrokerUrls(broker.pulsar_url, broker.url, broker.admin_url)
    finally:
        broker.stop()


@pytest.fixture(scope="module", params=["arneb", "pulsar"])
def transacting_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a broker with transactions enabled."""
    if request.param not in (request.config.getoption("pulsar") or ["arneb", "pulsar"]):
        pytest.skip("not selected by --pulsar")
    place = tmp_path_factory.mktemp(request.param)
    broker: Arneb | OwnCluster | PulsarStandalone
    if request.param == "pulsar":
        broker = PulsarStandalone(place, **TRANSACTING)
    else:
        broker = arneb_of(request.config, place, listeners=["pulsar"])
    broker.start()
    try:
        yield broker.pulsar_url
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def pulsar_url(broker_urls: BrokerUrls) -> str:
    """The URL at which the broker speaks Pulsar."""
    return broker_urls.pulsar


@pytest.fixture
def channel(broker_urls: BrokerUrls) -> Iterator[BlockingChannel]:
    """An AMQP channel of the same broker, in confirm mode."""
    if broker_urls.is_pulsar:
        pytest.skip("Apache Pulsar does not speak AMQP")
    if not broker_urls.amqp:
        pytest.skip("ARNEB_AMQP_URL is not set")
    with pika.BlockingConnection(pika.URLParameters(broker_urls.amqp)) as connection:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened


@pytest.fixture
def admin(broker_urls: BrokerUrls) -> Admin:
    """The admin API of the broker."""
    if not broker_urls.admin:
        pytest.skip("ARNEB_ADMIN_URL is not set")
    return Admin(broker_urls.admin)


@pytest.fixture
def mortal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Mortal]:
    """Starts brokers with the given settings, which can be killed and started again at the same
    ports. In a cluster only the leader is killed and another node takes over, unless ``all_go``."""
    started: list[Arneb | OwnCluster] = []
    nodes: int = request.config.getoption("arneb_nodes")

    def start(settings: str = "", *, all_go: bool = False) -> Arneb | OwnCluster:
        directory = tmp_path / f"broker{len(started)}"
        ports = {"pulsar": free_port()}
        listeners = ["pulsar", "http-pulsar"]
        broker: Arneb | OwnCluster
        if nodes and not all_go:
            broker = MovingCluster(
                directory, nodes=nodes, listeners=listeners, ports=ports, settings=settings
            )
        else:
            broker = arneb_of(
                request.config, directory, listeners=listeners, ports=ports, settings=settings
            )
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        if isinstance(broker, MovingCluster):
            broker.end()
        else:
            broker.stop()


@pytest.fixture
def connect(pulsar_url: str) -> Iterator[Connect]:
    """Opens clients, which are closed at the end."""
    opened: list[pulsar.Client] = []
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)

    def open_client(**options: Any) -> pulsar.Client:
        options = {"operation_timeout_seconds": ANSWER_WITHIN_S, "logger": quiet} | options
        opened.append(pulsar.Client(pulsar_url, **options))
        return opened[-1]

    yield open_client
    for client in opened:
        with suppress(pulsar.AlreadyClosed):  # the scenario may have closed it
            client.close()


@pytest.fixture
def client(connect: Connect) -> pulsar.Client:
    """A client with a connection of its own."""
    return connect()


@pytest.fixture
def name() -> Named:
    """Makes names that no other scenario uses, and no other run against the same broker."""

    def make(kind: str) -> str:
        return f"{kind}-{os.getpid()}-{next(_numbers)}"

    return make


@pytest.fixture
def topic(name: Named) -> str:
    """The name of a topic that does not exist yet."""
    return f"persistent://public/default/{name('topic')}"
