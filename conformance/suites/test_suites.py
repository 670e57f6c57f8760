"""The clients' own integration tests, as published in the package registries, on both brokers.

The rule: a suite is run whole and unchanged. Tests that need more than a broker (certificates, a
management API, a container to be restarted) are listed in its ``skipped.txt``, each with the
reason; none is listed because Arneb fails it. The broker speaks TLS too, which half of the suites
require. Some of their tests have races of their own, on either broker, so a failed test is run
again, alone.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
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
RUN_WITHIN_S: Final = 3_000.0
TRIES: Final = 10
"""How often a failed test is run again. One test asks for the order in which a set returns its
members, and failed in a quarter of its runs on either broker; a test that fails because of the
broker fails every time."""

MOCHA_WITHIN_MS: Final = "30000"
"""The timeout of each test of amqplib, which would otherwise be two seconds."""

SMALL_BUILD: Final = {"CARGO_PROFILE_TEST_DEBUG": "0"}
"""Without debugging symbols a build needs a third less time and space."""

PYTEST: Final = "-m pytest -q -rfE -o log_cli=false -W ignore"

STAND_INS: Final = {
    "aio_pika": {"docker_client.py": "tests/docker_client.py"},
    "aiormq": {"outer_conftest.py": "conftest.py"},
    "dramatiq": {
        "common.py": "tests/common.py",
        "inner_conftest.py": "tests/conftest.py",
        "package.py": "tests/__init__.py",
        "pytest.ini": "pytest.ini",
    },
    "oslo_messaging": {"pytest.ini": "pytest.ini"},
    "amqpy": {"outer_conftest.py": "conftest.py", "pytest.ini": "pytest.ini"},
}
"""Our files that replace a suite's own, which would start a broker."""


def skipped(suite: str, file: str = "skipped.txt") -> list[str]:
    """The tests listed in the file."""
    lines = (HERE / suite / file).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def passed(
    command: list[str],
    again: Callable[[str], list[str]],
    where: Path,
    environment: dict[str, str],
) -> str:
    """Run a suite and return its output, which must report success. ``again`` turns the output of a
    failed run into the arguments that run only the failed tests; it returns none if they cannot be
    determined."""
    chosen: list[str] = []
    for left in reversed(range(TRIES)):
        try:
            return finished([*command, *chosen], where, RUN_WITHIN_S, environment)
        except AssertionError as error:
            chosen = again(str(error))
            if not left or not chosen:
                raise
            print("run again, because of:", str(error)[-1000:], sep="\n")
    raise AssertionError("there is a last try")


def run_with_pytest(
    suite: str,
    requirement: str,
    tests: str,
    broker: Target,
    files: Mapping[str, Path] = MappingProxyType({}),
    environment_added: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run the tests in the source distribution of a Python package; the result is the output.
    ``files`` are added to the distribution, which lacks them, and ``told`` to the environment."""
    folder = HERE / suite
    python = python_with(folder / "requirements.txt")
    stand_ins = {folder / name: path for name, path in STAND_INS.get(suite, {}).items()}

    def make(place: Path) -> None:
        unpack_source(python, requirement, place)
        for stand_in, path in stand_ins.items():
            shutil.copy(stand_in, place / path)

    source = made_once(f"suite-{requirement}", [folder / "requirements.txt", *stand_ins], make)
    for name, file in files.items():
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(file, source / name)
    left_out = [f"--deselect={each}" for each in skipped(suite)]
    assert broker.amqps is not None
    where = {
        "RABBITMQ_HOST": broker.address.host,
        "RABBITMQ_5672_TCP": str(broker.address.port),
        "RABBITMQ_5671_TCP": str(broker.amqps.port),
        **environment_added,
    }
    with TemporaryDirectory() as cache:
        kept = ["-o", f"cache_dir={cache}"]
        command = [str(python), *PYTEST.split(), *kept, *left_out, tests]
        return passed(command, lambda _: ["--last-failed", "--lfnf=none"], source, where)


def py_amqp(broker: Target) -> str:
    made = broker.certificates
    certificates = {
        "t/certs/ca_certificate.pem": made / "root.crt",
        "t/certs/client_certificate.pem": made / "client.crt",
        "t/certs/client_key.pem": made / "client.key",
        "t/certs/client_certificate_broken.pem": made / "client.crt",
        "t/certs/client_key_broken.pem": made / "other.key",
    }
    return run_with_pytest("py_amqp", "amqp==5.4.2", "t/integration", broker, certificates)


def kombu(broker: Target) -> str:
    return run_with_pytest("kombu", "kombu==5.7.0", "t/integration/test_py_amqp.py", broker)


def aio_pika(broker: Target) -> str:
    return run_with_pytest("aio_pika", "aio-pika==10.2.1", "tests", broker)


def aiormq(broker: Target) -> str:
    return run_with_pytest("aiormq", "aiormq==7.2.4", "tests", broker)


def amqpy(broker: Target) -> str:
    return run_with_pytest("amqpy", "amqpy==0.13.1", "amqpy/tests", broker)


def dramatiq(broker: Target) -> str:
    return run_with_pytest("dramatiq", "dramatiq==2.2.1", "tests/test_rabbitmq.py", broker)


def oslo_messaging(broker: Target) -> str:
    url = f"rabbit://guest:guest@{broker.address}/"
    environment_added = {"RPC_TRANSPORT_URL": url, "NOTIFY_TRANSPORT_URL": url}
    tests = "oslo_messaging/tests/functional/test_functional.py"
    return run_with_pytest(
        "oslo_messaging",
        "oslo.messaging==18.3.1",
        tests,
        broker,
        environment_added=environment_added,
    )


def lapin(broker: Target) -> str:
    """The tests of the version that ``clients/lapin`` pins, with the crate's own lock file."""
    cargo, pinned = tool("cargo", "cargo-web"), HERE.parent / "clients/lapin"
    test = [cargo, "test", "--locked", "--features", "smol", "--test", "*"]

    def make(place: Path) -> None:
        pin, source = place / "pin", place / "source"
        shutil.copytree(pinned, pin)
        question = [cargo, "metadata", "--quiet", "--locked", "--format-version", "1"]
        packages = json.loads(finished(question, pin, BUILD_WITHIN_S))["packages"]
        [manifest] = [each["manifest_path"] for each in packages if each["name"] == "lapin"]
        shutil.copytree(Path(manifest).parent, source)
        finished([*test, "--quiet", "--no-run"], source, 3 * BUILD_WITHIN_S, SMALL_BUILD)

    place = made_once("suite-lapin", [*pinned.glob("Cargo.*")], make)
    left_out = [word for each in skipped("lapin") for word in ("--skip", each)]
    run = [*test, "--no-fail-fast", "--", *left_out]
    where = {"AMQP_ADDR": f"amqp://guest:guest@{broker.address}/%2f", **SMALL_BUILD}

    def failed(printed: str) -> list[str]:
        return re.findall(r"^test (\S+) \.\.\. FAILED", printed, re.MULTILINE)

    return passed(run, failed, place / "source", where)


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
        # The module cache is read-only, and the tests write to their own directory.
        shutil.copytree(found.strip(), source, copy_function=shutil.copyfile)
        source.chmod(0o755)
        build = [go, "test", "-tags", "integration", "-c", "-o", str(place / "suite"), "."]
        finished(build, source, BUILD_WITHIN_S)

    place = made_once("suite-amqp091-go", pinned, make)
    left_out = f"^({'|'.join(skipped('amqp091_go'))})$"
    command = [str(place / "suite"), "-test.timeout=20m", "-test.skip", left_out]
    url = {"AMQP_URL": f"amqp://guest:guest@{broker.address}/"}

    def failed(printed: str) -> list[str]:
        names = re.findall(r"^--- FAIL: (\w+)", printed, re.MULTILINE)
        return ["-test.run", f"^({'|'.join(names)})$"] if names else []

    return passed(command, failed, place / "source", url)


def amqplib(broker: Target) -> str:
    node, npm, folder = tool("node", "nodejs"), tool("npm", "npm"), HERE / "amqplib"
    pinned = [folder / "package.json", folder / "package-lock.json"]

    def make(place: Path) -> None:
        for each in pinned:
            shutil.copy(each, place)
        install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        finished(install, place, BUILD_WITHIN_S)

    modules = made_once("suite-amqplib", pinned, make) / "node_modules"
    left_out = f"^(?!.*({'|'.join(skipped('amqplib'))})$)"
    tries = ["--retries", str(TRIES - 1), "--timeout", MOCHA_WITHIN_MS]
    command = [node, str(modules / "mocha/bin/mocha"), "--check-leaks", "--ui=tdd", "--exit"]
    url = {"URL": f"amqp://guest:guest@{broker.address}"}
    where = modules / "amqplib"
    return finished([*command, *tries, "--grep", left_out, "test"], where, RUN_WITHIN_S, url)


@pytest.mark.parametrize(
    "suite", [py_amqp, kombu, aiormq, amqpy, dramatiq, oslo_messaging, amqp091_go, amqplib, lapin]
)
def test_own_suite(suite: Callable[[Target], str], secured_broker: Target) -> None:
    print(suite(secured_broker)[-500:])
