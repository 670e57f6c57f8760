"""What is described of systemd and containers, as far as it can be tried without either."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from arneb.config import load_config
from arneb.demo.process import BrokerProcess

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = REPOSITORY / "deploy"
PAGE: Final = (REPOSITORY / "docs" / "guide" / "installation.md").read_text()

SYSTEMD: Final = shutil.which("systemd-analyze")
STRACE: Final = shutil.which("strace")

REFUSE_NEW_CODE: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""PR_SET_MDWE: what MemoryDenyWriteExecute= does, by the kernel's own means (6.3 and later)."""


def unit(tmp_path: Path) -> Path:
    """The unit with this installation's command."""
    command = Path(sys.executable).with_name("arneb")
    text = (DEPLOY / "arneb.service").read_text()
    assert "/opt/arneb/bin/arneb" in text
    file = tmp_path / "arneb.service"
    file.write_text(text.replace("/opt/arneb/bin/arneb", str(command)))
    return file


def instructions(name: str) -> list[str]:
    """Of that name in the Containerfile, without it."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith(f"{name} ")]


def test_the_configuration_to_begin_with_is_one() -> None:
    config = load_config(DEPLOY / "arneb.toml")
    assert str(config.data_dir) == "/var/lib/arneb"
    assert [each.name for each in config.amqp.users] == ["app"]
    assert tomllib.loads((DEPLOY / "arneb.toml").read_text())["log"] == {"format": "json"}


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not there")
def test_systemd_knows_every_line_of_the_unit(tmp_path: Path) -> None:
    assert SYSTEMD is not None
    done = subprocess.run(
        [SYSTEMD, "verify", "--man=no", unit(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not there")
def test_the_unit_is_hardened(tmp_path: Path) -> None:
    assert SYSTEMD is not None
    done = subprocess.run(
        [SYSTEMD, "security", "--offline=true", "--no-pager", "--threshold=20", unit(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def allowed_calls(group: str) -> set[str]:
    """The system calls of a group of systemd's."""
    assert SYSTEMD is not None
    done = subprocess.run(
        [SYSTEMD, "syscall-filter", "--no-pager", group], capture_output=True, text=True, check=True
    )
    calls = set[str]()
    for line in map(str.strip, done.stdout.splitlines()[1:]):
        if line.startswith("@"):
            calls |= allowed_calls(line)
        elif line and not line.startswith("#"):
            calls.add(line)
    return calls


@pytest.mark.skipif(None in (SYSTEMD, STRACE), reason="systemd-analyze or strace is not there")
def test_a_broker_needs_no_more_than_the_unit_lets_it(tmp_path: Path) -> None:
    """System calls outside of the filter, or memory that is both written and run, would end it."""
    assert STRACE is not None
    [group] = re.findall(
        r"^SystemCallFilter=(.*)$", (DEPLOY / "arneb.service").read_text(), re.MULTILINE
    )
    trace = tmp_path / "trace"
    arneb = [sys.executable, "-m", "arneb", "serve", "--data-dir", str(tmp_path / "data")]
    ports = ["--amqp=127.0.0.1:0", "--pulsar=127.0.0.1:0", "--http=off", "--http-pulsar=off"]
    broker = subprocess.Popen(
        [
            STRACE, "-f", "-qq", "-D", "-o", str(trace),
            sys.executable, "-c", REFUSE_NEW_CODE, *arneb, *ports,
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert broker.stdout is not None
    lines = [broker.stdout.readline() for _ in range(5)]
    assert lines[-1].startswith("pulsar ready on "), lines
    broker.terminate()  # by -D, the broker itself is our child
    said, _ = broker.communicate(timeout=60)
    assert said.splitlines()[-1] == "stopped"
    used = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    assert {"fsync", "pwrite64", "accept4"} & used, "nothing was traced"
    assert used <= allowed_calls(group)


def test_the_containers_command_serves_on_every_address(tmp_path: Path) -> None:
    [entry], [command] = instructions("ENTRYPOINT"), instructions("CMD")
    assert json.loads(entry) == ["arneb"]
    options = json.loads(command)
    assert options[0] == "serve"
    ports = {f"--{name}=*:{port}" for name, port in exposed().items()}
    assert ports <= set(options)
    own = [each for each in options[1:] if each not in ports and "--data-dir" not in each]
    broker = subprocess.Popen(
        [
            sys.executable, "-m", "arneb", "serve", f"--data-dir={tmp_path / 'data'}", *own,
            *(f"--{name}=127.0.0.1:0" for name in exposed()),
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert broker.stdout is not None
    said = [json.loads(broker.stdout.readline())["message"] for _ in range(9)]
    assert {each.split()[0] for each in said if " ready on " in each} == set(exposed())
    broker.terminate()
    broker.communicate(timeout=30)
    assert broker.returncode == 0


def exposed() -> dict[str, int]:
    """The ports of the page, by their options, which are those of the image."""
    ports = {
        name: int(port)
        for port, name in re.findall(r"^\| (\d+) \| `--([a-z-]+)`", PAGE, re.MULTILINE)
    }
    assert sorted(map(int, instructions("EXPOSE")[0].split())) == sorted(ports.values())
    return ports


def test_the_containers_health_is_the_brokers(tmp_path: Path) -> None:
    [health] = instructions("HEALTHCHECK")
    _, _, code = json.loads(health[health.index("[") :])
    assert code.startswith("from urllib")
    with BrokerProcess(tmp_path / "data", listeners=("http",)) as broker:
        port = broker.addresses["http"].port
        program = code.replace(":15672/", f":{port}/")
        assert program != code
        check = [sys.executable, "-c", program]
        assert subprocess.run(check, check=False).returncode == 0
    done = subprocess.run(check, capture_output=True, check=False)
    assert done.returncode != 0
