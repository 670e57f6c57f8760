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


@pytest.mark.in_peace("its program is not of this suite")
def test_it_works_where_nothing_else_of_ours_is(
    broker: Broker, topic: str, wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages)
    # What others made is taken from here; our own source roots, which a .pth names, are not.
    theirs = next(each for each in map(Path, sys.path) if each.name == "site-packages")
    (packages / "theirs.pth").write_text(f"{theirs}\n")
    python = tmp_path / "venv/bin/python"
    done = subprocess.run(
        [python, "-I", "-c", PROGRAM, broker.pulsar_url, topic],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["alone", "alone"]


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
