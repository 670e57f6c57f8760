"""The client as a distribution of its own: in an environment that has nothing of a broker."""

import ast
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest
from tests.pulsar_client.conftest import Broker

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DISTRIBUTION: Final = REPOSITORY / "pulsar_client"

IMPORTED_AS: Final = {"google-re2": "re2", "protobuf": "google"}
"""Where the name of what is installed is not that of what is imported."""

PROGRAM: Final = """
import importlib.util, sys, anyio
from arneb_pulsar.client import connect
for name in ("arneb", "arneb_core", "arneb_amqp", "pyspark_arneb", "arneb_pulsar.server"):
    assert importlib.util.find_spec(name) is None, name

async def main():
    async with connect(sys.argv[1]) as client:
        consumer = await client.subscribe(sys.argv[2], "s")
        producer = await client.create_producer(sys.argv[2])
        sent = await producer.send(b"alone")
        message = await consumer.receive(10)
        assert (message.id, message.data) == (sent, b"alone")
        await consumer.acknowledge_stored(message)
    print("alone")

for backend in ("trio", "asyncio"):
    anyio.run(main, backend=backend)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, built."""
    made = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "--no-cache-dir", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(made), str(DISTRIBUTION)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of an environment stand in which the distribution is installed, with what
    others made, and nothing else of ours."""
    made = tmp_path_factory.mktemp("alone") / "venv"
    venv.create(made, with_pip=False)
    programs = made / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run([*pip, *install], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # What others made is taken from here; our own source roots, which a .pth names, are not.
    theirs = next(each for each in map(Path, sys.path) if each.name == "site-packages")
    (packages,) = (made / "lib").glob("python*/site-packages")
    (packages / "theirs.pth").write_text(f"{theirs}\n")
    return programs


def played(*command: str | Path, stdin: str = "") -> str:
    """What a program prints."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.in_peace("its program is not of this suite")
def test_it_works_where_nothing_else_of_ours_is(broker: Broker, topic: str, alone: Path) -> None:
    output = played(alone / "python", "-I", "-c", PROGRAM, broker.pulsar_url, topic)
    assert output.split() == ["alone", "alone"]


@pytest.mark.in_peace("its programs are not of this suite")
def test_it_has_a_command_line(broker: Broker, topic: str, alone: Path) -> None:
    command = (alone / "arneb-client", "-b", broker.pulsar_url)
    played(*command, "produce", topic, "-q", stdin="1\n2\n")
    assert played(*command, "read", topic, "-e", "-q") == "1\n2\n"
    assert "1 answer, " in played(*command, "ping", "-c", "1")


def test_it_names_all_that_it_imports(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        sources = [file.read(name) for name in file.namelist() if name.endswith(".py")]
    imported = {
        name.partition(".")[0]
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
    }
    project = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[<>=]", each)[0] for each in project["dependencies"]]
    declared = {IMPORTED_AS.get(name, name) for name in names}
    assert imported - set(sys.stdlib_module_names) - {"arneb_pulsar"} - OPTIONAL == declared


OPTIONAL: Final = {"opentelemetry", "grpc_tools"}
"""Asked for by those who have it: traces, and the generator of the protocol's code."""
