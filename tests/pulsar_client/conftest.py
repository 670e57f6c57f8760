"""The behaviour suite of the client library: each scenario on trio and on asyncio, against each
broker that was asked for.

The rule: what needs the process of a broker, or the library as it is installed, stands here; what
needs neither stands in ``tests/pulsar_frontend/client``, under the name of its module.

``--client-brokers arneb,pulsar`` plays it against Apache Pulsar standalone as well (``make
client-suite``); by itself it is played against Arneb.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, Protocol

import anyio
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone

BACKENDS: Final = ("trio", "asyncio")
WITHIN_S: Final = 60.0
"""What hangs is to fail with its name."""

LOOK_S: Final = 0.05
KILLS: Final = 2
"""Of a broker under load; ``--client-kills`` says more."""


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--client-brokers", default="arneb", help="arneb, pulsar, or both")
    parser.addoption(
        "--client-kills", type=int, default=KILLS, help="SIGKILLs of a broker under load"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("backend")
        metafunc.parametrize("backend", BACKENDS)
    if "broker" in metafunc.fixturenames:
        names = metafunc.config.getoption("--client-brokers", "arneb").split(",")
        metafunc.parametrize("broker", names, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async def`` test to its end on its backend, with a real clock."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    played = partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})

    kills = pyfuncitem.config.getoption("--client-kills", KILLS)

    async def play() -> None:
        with anyio.fail_after(WITHIN_S * max(1, kills)):
            await played()

    anyio.run(play, backend=pyfuncitem.callspec.params["backend"])
    return True


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that all scenarios share; each has topics of its own."""
    directory = tmp_path_factory.mktemp(request.param)
    made = started(request.param, directory)
    try:
        yield made
    finally:
        made.stop()


def started(name: str, directory: Path) -> "OwnArneb | PulsarStandalone":
    """A broker by its name, running."""
    if name == "arneb":
        return OwnArneb(directory, listeners=("pulsar", "http-pulsar")).start()
    if name == "pulsar":
        # systemTopicEnabled: where coordinators keep their records.
        return PulsarStandalone(
            directory, transactionCoordinatorEnabled="true", systemTopicEnabled="true"
        ).start()
    raise pytest.UsageError(f"expected arneb or pulsar in --client-brokers, got {name!r}")


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what no event tells."""
    for _ in range(int(WITHIN_S / LOOK_S)):
        if holds():
            return
        await anyio.sleep(LOOK_S)
    raise AssertionError("expected it to hold by now")


NUMBERS = count(1)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other scenario has."""
    return f"persistent://public/default/{request.node.originalname}-{next(NUMBERS)}"
