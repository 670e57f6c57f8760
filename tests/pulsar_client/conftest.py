"""The behaviour suite of the client library: each scenario on trio and on asyncio, against each
broker that was asked for.

The rule: what needs the process of a broker, or the library as it is installed, stands here; what
needs neither stands in ``tests/pulsar_frontend/client``, under the name of its module.

``--client-brokers arneb,pulsar,cluster`` plays it against Apache Pulsar standalone and a cluster of
two brokers and three bookies as well, ``--client-disturb unload`` has topics unloaded meanwhile and
``kill`` brokers killed besides (``make client-suite``); by itself it is played against Arneb, in
peace.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import httpx
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import free_port
from conformance.brokers.pulsar_cluster import PulsarCluster
from conformance.brokers.pulsar_standalone import PulsarStandalone
from tests.pulsar_client.disturbance import NAMESPACE, Disturbance, Mortal

from arneb_pulsar.client import Message
from arneb_pulsar.client.consumer.receiving import Receiving

BACKENDS: Final = ("trio", "asyncio")
HERE: Final = Path(__file__).parent
WITHIN_S: Final = 60.0
"""What hangs is to fail with its name."""

PATIENT_WITHIN_S: Final = 240.0
"""Where a broker of Java may have to start meanwhile."""

MUST_COME_S: Final = 5.0
"""Who waits so long waits for what must come, and not to see that nothing does."""

TAKEN_OVER_WITHIN_S: Final = 90.0
"""The topics of a broker that was killed, by another: its session ends after 10 s, and a busy
machine takes its time."""

CHECK_INTERVAL_S: Final = 0.05


class Broker(Protocol):
    """What scenarios are played against."""

    name: str

    @property
    def pulsar_url(self) -> str: ...
    @property
    def http_url(self) -> str: ...


class OwnArneb(Arneb):
    """Arneb, with the names that the suite has for addresses."""

    @property
    def http_url(self) -> str:
        return self.admin_url


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "in_peace(why, at=brokers): not played while topics are unloaded and brokers are killed; "
        "where brokers are named, not at these",
    )
    config.addinivalue_line(
        "markers", "lean(why): played on trio alone, unless all backends are asked for"
    )
    config.addinivalue_line(
        "markers",
        "thorough(why): played where all backends are asked for, as make client-suite does",
    )
    config.addinivalue_line("markers", "not_at(broker): of what that broker does not have")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--client-brokers", default="arneb", help="some of arneb, pulsar and cluster, by commas"
    )
    parser.addoption(
        "--client-disturb",
        default="none",
        choices=("none", "unload", "kill"),
        help="unload topics while scenarios are played, or kill brokers besides",
    )
    parser.addoption(
        "--client-backends",
        default="lean",
        choices=("lean", "all"),
        help="lean: what is marked so is played on trio alone, and what is thorough not at all",
    )
    parser.addoption("--client-seed", type=int, default=1, help="of the disturbance")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What only a cluster can show is there only for a cluster."""
    if collection_path.name == "test_cluster.py":
        return "cluster" not in _brokers(config)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a broker does not have, what a disturbance would rightly change, and what
    takes long where it was not asked for."""
    is_disturbed = config.getoption("--client-disturb", "none") != "none"
    is_lean = config.getoption("--client-backends", "lean") == "lean"
    left_out = [
        each
        for each in items
        if isinstance(each, pytest.Function)
        and each.path.is_relative_to(HERE)
        and (
            _is_elsewhere(each)
            or (is_disturbed and _is_peaceful(each))
            or (is_lean and each.get_closest_marker("thorough") is not None)
        )
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [each for each in items if each not in left_out]


def _is_elsewhere(item: pytest.Function) -> bool:
    marker = item.get_closest_marker("not_at")
    return marker is not None and item.callspec.params["broker"] in marker.args


def _is_peaceful(item: pytest.Function) -> bool:
    if "broker" not in item.fixturenames:
        return True
    marker = item.get_closest_marker("in_peace")
    if marker is None:
        return False
    return item.callspec.params["broker"] in marker.kwargs.get("at", item.callspec.params.values())


OF_ONE: Final = ("guarded", "telling")
"""Brokers with settings of their own are single ones."""


def _brokers(config: pytest.Config) -> Sequence[str]:
    names: str = config.getoption("--client-brokers", "arneb")
    return names.split(",")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("backend")
        is_lean = metafunc.config.getoption("--client-backends", "lean") == "lean"
        is_lean = is_lean and metafunc.definition.get_closest_marker("lean") is not None
        metafunc.parametrize("backend", BACKENDS[:1] if is_lean else BACKENDS)
    for fixture in ("broker", *OF_ONE):
        if fixture in metafunc.fixturenames:
            names = [
                each
                for each in _brokers(metafunc.config)
                if fixture not in OF_ONE or each != "cluster"
            ]
            metafunc.parametrize(fixture, names, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async def`` test to its end on its backend, with a real clock."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    played = partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})

    config = pyfuncitem.config
    is_patient = (
        set(_brokers(config)) != {"arneb"} or config.getoption("--client-disturb") != "none"
    )

    async def play() -> None:
        with anyio.fail_after(PATIENT_WITHIN_S if is_patient else WITHIN_S):
            await played()

    anyio.run(play, backend=pyfuncitem.callspec.params["backend"])
    return True


@pytest.fixture(autouse=True)
def _first_deliveries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disturbed, scenarios look at the first delivery of each message: what they have not
    acknowledged comes again, and rightly."""
    if request.config.getoption("--client-disturb") == "none":
        return
    seen: dict[Receiving[Any], set[str]] = {}
    receive = Receiving.receive

    async def first(self: Receiving[Any], timeout_s: float | None = None) -> Message[Any]:
        if timeout_s is not None and timeout_s >= MUST_COME_S:
            timeout_s = TAKEN_OVER_WITHIN_S
        ends_at = math.inf if timeout_s is None else anyio.current_time() + timeout_s
        while True:
            # What was seen before does not make the wait longer.
            left_s = None if timeout_s is None else max(0.0, ends_at - anyio.current_time())
            message = await receive(self, left_s)
            known = seen.setdefault(self, set())
            if (name := f"{message.topic} {message.id!r}") not in known:
                known.add(name)
                return message

    monkeypatch.setattr(Receiving, "receive", first)


DISTURBANCE: Final = pytest.StashKey[Disturbance]()


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that all scenarios share; each has topics of its own."""
    directory = tmp_path_factory.mktemp(request.param)
    made = started(request.param, directory / "broker")
    disturb, seed = (request.config.getoption(f"--client-{name}") for name in ("disturb", "seed"))
    try:
        if disturb == "none":
            yield made
            return
        # Without it, what is sent again because its receipt was lost rightly stands there twice.
        url = f"{made.http_url}/admin/v2/namespaces/{NAMESPACE}/deduplication"
        httpx.post(url, json=True, timeout=PATIENT_WITHIN_S).raise_for_status()
        disturbance = Disturbance(made, mortals_of(made) if disturb == "kill" else (), seed)
        request.config.stash[DISTURBANCE] = disturbance
        with disturbance.under_way():
            yield made
        print(f"\n{made.name}: {disturbance!r}")
    finally:
        made.stop()


def started(name: str, directory: Path) -> "OwnArneb | PulsarStandalone | PulsarCluster":
    """A broker by its name, running."""
    if name == "arneb":
        # The ports are chosen here, so that it is found again after a kill.
        ports = {each: free_port() for each in ("pulsar", "http-pulsar")}
        return OwnArneb(directory, listeners=tuple(ports), ports=ports).start()
    # systemTopicEnabled: where coordinators keep their records.
    settings = {
        "transactionCoordinatorEnabled": "true",
        "systemTopicEnabled": "true",
        "backlogQuotaCheckIntervalInSeconds": 5,
    }
    if name == "pulsar":
        return PulsarStandalone(directory, **settings).start()
    if name == "cluster":
        return PulsarCluster(directory, **settings).start()
    raise pytest.UsageError(f"expected arneb, pulsar or cluster, got {name!r}")


def mortals_of(broker: "OwnArneb | PulsarStandalone | PulsarCluster") -> Sequence[Mortal]:
    """Who may be killed meanwhile: of a cluster those that nobody asks by HTTP."""
    return broker.brokers[1:] if isinstance(broker, PulsarCluster) else [broker]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what no event tells."""
    for _ in range(int(WITHIN_S / CHECK_INTERVAL_S)):
        if holds():
            return
        await anyio.sleep(CHECK_INTERVAL_S)
    raise AssertionError("expected it to hold by now")


NUMBERS = count(1)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other scenario has; it is unloaded if any is."""
    name = f"persistent://public/default/{request.node.originalname}-{next(NUMBERS)}"
    if (disturbance := request.config.stash.get(DISTURBANCE, None)) is not None:
        disturbance.wanted = name
    return name
