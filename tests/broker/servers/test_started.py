"""What a broker has imported when it is ready: modules, counted in a process of their own.

The rule: start-up time and memory are for what is used.
"""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from arneb.servers.run import CODECS
from arneb_core.api.entries.codec import CODEC_GROUP
from arneb_core.api.entries.entry import Origin

HEAVY: Final = (
    "starlette", "asyncio", "h11", "anyio", "httpx", "fastavro", "avro", "prometheus_client",
    "cryptography", "jwt", "email", "argparse", "zipfile", "importlib.metadata", "crc32c",
    "decimal", "difflib", "logging.handlers", "cramjam", "arneb.settings.rabbitmq.conf",
    "arneb.logins.oauth", "arneb.logins.http_backend", "arneb_amqp.server",
    "arneb_cluster", "pyspark_arneb",
)  # fmt: skip
"""What a broker for Pulsar clients alone does not need before somebody asks for it. It would cost
mebibytes and tenths of a second."""

MODULES_MAX: Final = 750
"""All modules that a broker with the Pulsar port alone has imported when it is ready, including
Python's own: 739 on 2026-11-29 with Python 3.11, ten more than before, since the core's border
stands in folders. Code that needs more must import it when it is needed, or the reason must be
given here."""

HEAVY_WITH_HTTP: Final = (
    "prometheus_client", "wsgiref", "cramjam", "httpx", "fastavro", "avro", "cryptography", "jwt",
    "argparse", "zipfile",
    "email.headerregistry", "importlib.metadata", "crc32c", "difflib", "logging.handlers",
    "arneb.settings.rabbitmq.conf", "arneb_cluster", "pyspark_arneb",
)  # fmt: skip
"""What no broker needs, with every port open, before somebody asks for it."""

WITH_HTTP_MAX: Final = 1_200
"""The same for one with AMQP, Pulsar and HTTP: 1,186 on 2026-11-30 with compiled modules, seventeen
more than the day before, since a cluster's node and the HTTP applications stand in folders."""

STARTED: Final = """
import sys, trio
from pathlib import Path
from arneb.settings.config import load_config
from arneb.node.process import run_broker
from arneb_core.api.entries.codec import codecs

def say(line):
    if line.startswith("Server startup complete"):
        if "codecs" in sys.argv[3:]:
            print(*(each.name for each in codecs()))
        print(*sys.modules, sep="\\n", flush=True)
        raise SystemExit(0)

file = Path(sys.argv[2])
config = load_config(file if file.exists() else None, data_dir=Path(sys.argv[1]),
                     amqp="127.0.0.1:0" if file.exists() else "off", pulsar="127.0.0.1:0",
                     http="127.0.0.1:0" if "http" in sys.argv[3:] else "off", http_pulsar="off")
trio.run(run_broker, config, say)
"""


FILE: Final = "arneb.toml"
"""Its settings, if it has any; if so it serves AMQP clients too."""

OAUTH_SETTINGS: Final = """
[logins]
backends = ["oauth"]
[logins.oauth]
resource_server_id = "arneb"
jwks_url = "http://127.0.0.1:1/keys"
"""


def modules_of_a_started_broker(tmp_path: Path, *and_then: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", STARTED, str(tmp_path / "data"), str(tmp_path / FILE), *and_then],
        capture_output=True,
        text=True,
        check=False,
    )
    found = done.stdout.split()
    # It ends with an exception from a nursery; what counts is that it came this far.
    assert "arneb_pulsar.server.listener" in found, done.stderr
    return found


def test_a_broker_imports_at_its_start_what_it_needs(tmp_path: Path) -> None:
    """Each module costs start-up time, and memory for as long as the broker runs."""
    found = modules_of_a_started_broker(tmp_path)
    assert not set(HEAVY) & set(found)
    assert len(found) <= MODULES_MAX


def test_a_broker_with_every_port_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("")
    found = modules_of_a_started_broker(tmp_path, "http")
    assert {"arneb_amqp.server", "arneb.http.management"} <= set(found)
    assert not set(HEAVY_WITH_HTTP) & set(found)
    assert len(found) <= WITH_HTTP_MAX


def test_a_broker_knows_its_codecs_without_searching_installed_packages(tmp_path: Path) -> None:
    """Otherwise the first entry of another frontend would block the event loop for that long."""
    found = modules_of_a_started_broker(tmp_path, "codecs")
    assert set(found[: len(Origin)]) == set(Origin.__members__)
    assert "arneb_amqp.codec" in found
    assert not {"importlib.metadata", "email", "zipfile"} & set(found)


def test_the_codecs_that_a_broker_names_are_those_that_are_installed() -> None:
    installed = {each.value for each in entry_points(group=CODEC_GROUP)}
    assert {f"{module}:CODEC" for module in CODECS} == installed


def test_a_broker_imports_at_its_start_what_it_asks_login_servers_with(tmp_path: Path) -> None:
    """Otherwise the first login would block the event loop for that long."""
    (tmp_path / FILE).write_text(OAUTH_SETTINGS)
    assert {"httpx", "jwt"} <= set(modules_of_a_started_broker(tmp_path))
