"""What all black-box scenarios use: a running broker, chosen on the command line.

``--broker`` chooses what the scenarios run against: ``arneb``, ``rabbitmq``, or both.
``ARNEB_AMQP_URL`` or ``RABBITMQ_AMQP_URL`` names a broker that is already running; otherwise one is
started for the session, on free loopback ports and throw-away data.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from _pytest.terminal import TerminalReporter

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))

from conformance.brokers.arneb import PROTOCOLS, Arneb  # noqa: E402
from conformance.brokers.arneb_cluster import MovingCluster, OwnCluster, move_leaders  # noqa: E402
from conformance.brokers.certificates import make_certificate  # noqa: E402
from conformance.brokers.process import Address, Broker, free_port  # noqa: E402
from conformance.brokers.rabbitmq import RabbitMQ  # noqa: E402
from conformance.toolbox import PLAYED  # noqa: E402

ORIGINALS = frozenset({"rabbitmq", "pulsar"})
RERUNS_MAX = 2
OWN_BOUNDS = frozenset({"suites", "clients"})
"""Folders whose scenarios build and run other people's programs, and limit their time
themselves."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running broker. ``process`` is None if it is not ours."""

    name: str
    address: Address
    process: Broker | None
    amqps: Address | None = None
    """Where it listens for AMQP over TLS, if it does."""
    certificates: Path = Path()
    """A directory with ``root``, ``server``, ``client`` and ``other``, each with ``.crt`` and
    ``.key``."""

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.address}/%2F"

    @property
    def is_rabbitmq(self) -> bool:
        """For the few places where scenarios differ according to ``DIFFERENCES.md``."""
        return self.name == "rabbitmq"


class _FailuresAtOnce:
    """Reports failures and retries immediately, because the whole run takes long."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line("")  # end the line of earlier progress letters
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)
            self._terminal.write_line(report.longreprtext)
        elif report.outcome == "rerun":
            self._terminal.write_line("")
            self._terminal.write_line(
                f"AGAIN {report.nodeid}: {_what_was_wrong(report.longreprtext)}"
            )


def _what_was_wrong(text: str) -> str:
    """The first error line of a failure."""
    return next((line[1:].strip() for line in text.splitlines() if line.startswith("E ")), text)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Note which test has run, for a lane that has to start again after a crash."""
    if path := os.environ.get(PLAYED):
        with Path(path).open("a") as played:
            played.write(nodeid + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a lane ran before it crashed, and retry what fails on one of the original
    brokers up to twice. The originals have races of their own, which a busy machine brings out and
    about which Arneb can do nothing. A failure on Arneb is final. The clients' own suites do this
    themselves, for each of their tests; a whole suite is one test to pytest, without a timeout."""
    if path := os.environ.get(PLAYED):
        played = set(Path(path).read_text().splitlines())
        items[:] = [item for item in items if item.nodeid not in played]
    for item in items:
        if OWN_BOUNDS.intersection(item.path.parts):
            item.add_marker(pytest.mark.timeout(0))
        if "suites" in item.path.parts:
            continue
        chosen: Mapping[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
        if ORIGINALS & {each for each in chosen.values() if isinstance(each, str)}:
            item.add_marker(pytest.mark.flaky(reruns=RERUNS_MAX))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, TerminalReporter):
        config.pluginmanager.register(_FailuresAtOnce(terminal))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        action="append",
        choices=["arneb", "rabbitmq"],
        help="run the AMQP scenarios against this broker (may be given twice; default: both)",
    )
    parser.addoption(
        "--pulsar",
        action="append",
        choices=["arneb", "pulsar"],
        help="run the Pulsar scenarios against this broker (may be given twice; default: both)",
    )
    parser.addoption(
        "--arneb-nodes",
        type=int,
        default=0,
        help="replace the single Arneb by a cluster of this many nodes behind a splitter; the "
        "leader changes between test files",
    )
    parser.addoption(
        "--frames", type=int, help="how many pieces of broken input to send to each port"
    )
    parser.addoption("--seed", type=int, help="the seed of a run of broken input, to repeat it")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.config.getoption("broker") or ["rabbitmq", "arneb"]
    scopes = {"broker": "session", "secured_broker": "session", "own_broker": "function"}
    for fixture, scope in scopes.items():
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, names, indirect=True, scope=scope)


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """The broker of this scenario, started once per session."""
    name: str = request.param
    if url := os.environ.get(f"{name.upper()}_AMQP_URL"):
        parts = urlsplit(url)
        yield Target(name, Address(parts.hostname or "127.0.0.1", parts.port or 5672), None)
        return
    process = _made(name, tmp_path_factory.mktemp(name), request.config)
    try:
        yield Target(name, process.start().address, process)
    finally:
        process.stop()


@pytest.fixture(scope="session")
def secured_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """A broker that also speaks TLS, started once per session."""
    name: str = request.param
    directory = tmp_path_factory.mktemp(f"secured-{name}")
    root = make_certificate(directory, "root")
    for owner in ("server", "client", "other"):
        make_certificate(directory, owner, root)
    process: Arneb | OwnCluster | RabbitMQ
    if name == "rabbitmq":
        process = _installed(RabbitMQ)(directory / name, certificates=directory)
    else:
        settings = f"""
[amqp.tls]
listen = "127.0.0.1:0"
certificate = "{directory}/server.crt"
key = "{directory}/server.key"
"""
        listeners = ["amqp", "amqp-tls"]
        process = arneb_of(request.config, directory / name, listeners=listeners, settings=settings)
    try:
        process.start()
        yield Target(name, process.address, process, process.amqps_address, directory)
    finally:
        process.stop()


@pytest.fixture
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker for this scenario alone, which may stop it, kill it and start it again at the same
    port. In a cluster only the leader is stopped or killed, and another node takes over."""
    process = mortal(request.param, tmp_path, request.config, {"amqp": free_port()})
    try:
        yield process.start()
    finally:
        end(process)


def _installed(broker: type[RabbitMQ]) -> type[RabbitMQ]:
    if not broker.installed():
        pytest.skip("RabbitMQ is not installed")
    return broker


def _made(name: str, directory: Path, config: pytest.Config) -> Broker:
    if name == "rabbitmq":
        return _installed(RabbitMQ)(directory)
    return arneb_of(config, directory)


def mortal(
    name: str, directory: Path, config: pytest.Config, ports: Mapping[str, int] | None = None
) -> Broker:
    """A broker that a scenario may stop, kill and start again, and must finally :func:`end`."""
    if name == "rabbitmq":
        return _installed(RabbitMQ)(directory)
    if nodes := config.getoption("arneb_nodes"):
        return MovingCluster(directory, nodes=nodes, ports=ports)
    return Arneb(directory, ports=ports)


def end(broker: Broker) -> None:
    """Kill all of the broker's processes."""
    if isinstance(broker, MovingCluster):
        broker.end()
    else:
        broker.kill()


def arneb_of(
    config: pytest.Config,
    directory: Path,
    *,
    listeners: Sequence[str] = PROTOCOLS,
    ports: Mapping[str, int] | None = None,
    settings: str = "",
) -> Arneb | OwnCluster:
    """A single Arneb, or the cluster chosen by ``--arneb-nodes``."""
    nodes: int = config.getoption("arneb_nodes")
    if not nodes:
        return Arneb(directory, listeners=listeners, ports=ports, settings=settings)
    return OwnCluster(directory, nodes=nodes, listeners=listeners, ports=ports, settings=settings)


@pytest.fixture(scope="module", autouse=True)
def _leader_moves() -> None:
    """Have each test file find another leader."""
    move_leaders()
