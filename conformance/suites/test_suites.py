"""The clients' own integration tests, as they come from the package registries, on both brokers.

The rule: a suite is run whole and unchanged. What needs more than a broker (certificates, a
management API, a container to be restarted) stands in its ``skipped.txt``, each with the reason;
nothing stands there because Arneb fails it.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from conformance.conftest import Target
from conformance.toolbox import (
    BUILD_WITHIN_S,
    finished,
    made_once,
    python_with,
    tool,
    unpack_source,
)

HERE: Final = Path(__file__).parent
RUN_WITHIN_S: Final = 1_500.0

PYTEST: Final = "-m pytest -q -rfE -p no:cacheprovider -o log_cli=false -W ignore"

STAND_INS: Final = {
    "aio_pika": {"docker_client.py": "tests/docker_client.py"},
    "aiormq": {"outer_conftest.py": "conftest.py"},
}
"""Files of ours that take the place of a suite's own, which would start a broker."""


def skipped(suite: str) -> list[str]:
    """The tests that ``skipped.txt`` names, or pytest's option to choose by name."""
    lines = (HERE / suite / "skipped.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def run_with_pytest(suite: str, requirement: str, tests: str, broker: Target) -> str:
    """Run tests of a Python package's source distribution; what was printed."""
    folder = HERE / suite
    python = python_with(folder / "requirements.txt")
    stand_ins = {folder / name: path for name, path in STAND_INS.get(suite, {}).items()}

    def make(place: Path) -> None:
        unpack_source(python, requirement, place)
        for stand_in, path in stand_ins.items():
            shutil.copy(stand_in, place / path)

    source = made_once(f"suite-{requirement}", [folder / "requirements.txt", *stand_ins], make)
    left_out = [each if each[0] == "-" else f"--deselect={each}" for each in skipped(suite)]
    where = {"RABBITMQ_HOST": broker.address.host, "RABBITMQ_5672_TCP": str(broker.address.port)}
    return finished([str(python), *PYTEST.split(), *left_out, tests], source, RUN_WITHIN_S, where)


def py_amqp(broker: Target) -> str:
    return run_with_pytest("py_amqp", "amqp==5.4.2", "t/integration", broker)


def kombu(broker: Target) -> str:
    return run_with_pytest("kombu", "kombu==5.7.0", "t/integration/test_py_amqp.py", broker)


def aio_pika(broker: Target) -> str:
    return run_with_pytest("aio_pika", "aio-pika==10.2.1", "tests", broker)


def aiormq(broker: Target) -> str:
    return run_with_pytest("aiormq", "aiormq==7.2.4", "tests", broker)


def amqp091_go(broker: Target) -> str:
    go, module = tool("go", "golang-go"), "github.com/rabbitmq/amqp091-go"
    pinned = [HERE / "amqp091_go/go.mod", HERE / "amqp091_go/go.sum"]

    def make(place: Path) -> None:
        pin, source = place / "pin", place / "source"
        pin.mkdir()
        for each in pinned:
            shutil.copy(each, pin)
        finished([go, "mod", "download"], pin, BUILD_WITHIN_S)
        found = finished([go, "list", "-m", "-f", "{{.Dir}}", module], pin, BUILD_WITHIN_S)
        # The module cache is read-only, and tests write beside themselves.
        shutil.copytree(found.strip(), source, copy_function=shutil.copyfile)
        source.chmod(0o755)
        build = [go, "test", "-tags", "integration", "-c", "-o", str(place / "suite"), "."]
        finished(build, source, BUILD_WITHIN_S)

    place = made_once("suite-amqp091-go", pinned, make)
    left_out = f"^({'|'.join(skipped('amqp091_go'))})$"
    command = [str(place / "suite"), "-test.timeout=20m", "-test.skip", left_out]
    url = {"AMQP_URL": f"amqp://guest:guest@{broker.address}/"}
    return finished(command, place / "source", RUN_WITHIN_S, url)


@pytest.mark.parametrize("suite", [py_amqp, kombu, aio_pika, aiormq, amqp091_go])
def test_own_suite(suite: Callable[[Target], str], broker: Target) -> None:
    print(suite(broker)[-500:])
