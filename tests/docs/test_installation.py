"""What is described of systemd and containers, as far as it can be tried without either."""

import importlib.util
import json
import os
import re
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

import pytest

from arneb.demo.process import BrokerProcess
from arneb.settings.config import load_config

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
    """Of that name in the Dockerfile, without it."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith(f"{name} ")]


def test_the_configuration_to_begin_with_is_one() -> None:
    config = load_config(DEPLOY / "arneb.toml")
    assert str(config.data_dir) == "/var/lib/arneb"
    assert [each.name for each in config.amqp.users] == ["app"]
    assert tomllib.loads((DEPLOY / "arneb.toml").read_text())["log"] == {"format": "json"}
    assert str(config.audit.file) == "/var/log/arneb/audit.jsonl"


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not there")
def test_systemd_knows_every_line_of_the_unit(tmp_path: Path) -> None:
    assert SYSTEMD is not None
    done = subprocess.run(
        [SYSTEMD, "verify", "--man=no", unit(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_manager_is_notified_of_the_brokers_state(tmp_path: Path) -> None:
    """By a real socket, as systemd has one."""
    text = (DEPLOY / "arneb.service").read_text()
    assert "\nType=notify\n" in text
    assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in text
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        command = [sys.executable, "-m", "arneb", "serve", f"--data-dir={tmp_path / 'data'}"]
        ports = [f"--{name}={'127.0.0.1:0' if name == 'http' else 'off'}" for name in exposed()]
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "600000"}
        broker = subprocess.Popen(
            [*command, *ports], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )

        def note(wanted: str) -> list[str]:
            found: list[str] = []
            while not found or wanted not in found[-1]:
                found.append(manager.recv(4096).decode())
            return found

        before = note("READY=1")
        assert broker.stdout is not None
        lines = [broker.stdout.readline() for _ in range(3)]
        assert any("http ready on" in each for each in lines), lines
        assert "WATCHDOG=1" in before + note("WATCHDOG=1")
        broker.send_signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in note("RELOADING=1")[-1]
        note("READY=1")
        broker.terminate()
        assert "STATUS=leaving" in note("STOPPING=1") + note("STATUS=leaving")
        broker.communicate(timeout=30)
        assert broker.returncode == 0


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
    output, _ = broker.communicate(timeout=60)
    assert output.splitlines()[-1] == "stopped"
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
    own = [each for each in options[1:] if each not in ports]
    broker = subprocess.Popen(
        [
            sys.executable, "-m", "arneb", "serve", f"--data-dir={tmp_path / 'data'}", *own,
            *(f"--{name}=127.0.0.1:0" for name in exposed()),
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert broker.stdout is not None
    lines = [json.loads(broker.stdout.readline())["message"] for _ in range(9)]
    assert {each.split()[0] for each in lines if " ready on " in each} == set(exposed())
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
    [environment] = [each for each in instructions("ENV") if "ARNEB_DATA_DIR" in each]
    program, *words = json.loads(health[health.index("[") :])
    check = [str(Path(sys.executable).with_name(program)), *words]
    data = str(tmp_path / "data")
    assert "ARNEB_DATA_DIR=/var/lib/arneb" in environment
    assert instructions("VOLUME") == ["/var/lib/arneb"]
    with BrokerProcess(tmp_path / "data", listeners=("http",)):
        done = subprocess.run(check, env={"ARNEB_DATA_DIR": data}, check=False)
        assert done.returncode == 0
    done = subprocess.run(check, env={"ARNEB_DATA_DIR": data}, capture_output=True, check=False)
    assert done.returncode != 0


def test_the_image_s_file_is_as_the_judge_of_such_files_wants_it() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    found: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            if name == "FROM":
                found.append([])
            found[-1].append((name, rest.strip()))
    return found


def test_nothing_in_the_image_is_run_as_root() -> None:
    assert len(stages()) > 1
    for stage in stages():
        user = "root"
        for name, rest in stage:
            user = rest if name == "USER" else user
            assert name != "RUN" or not user.startswith(("root", "0")), rest
        assert not user.startswith(("root", "0"))


def test_every_line_that_the_image_runs_does_what_it_should(tmp_path: Path) -> None:
    """As its user, in a clean directory. What others have written is not fetched again: the long
    form (``make soak-image``) does that."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as clean:
        os.chmod(clean, 0o755)  # its user is another
        is_whole = os.environ.get("IMAGE") == "whole"
        built = play_stage(Path(clean), is_whole=is_whole)
        look_at_what_is_built(built, [] if is_whole else site.getsitepackages())


def look_at_what_is_built(built: Path, more: list[str]) -> None:
    assert sorted(each.name for each in built.iterdir()) == ["data", "site"]
    assert (built / "data").stat().st_mode & 0o777 == 0o750
    copied = [rest.split()[-2:] for name, rest in stages()[-1] if "--from=build" in rest]
    assert copied == [["/tmp/site", "/opt/arneb"], ["/tmp/data", "/var/lib/arneb"]]
    search = [str(built / "site"), *more]
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, *search],
        capture_output=True, text=True, check=True, cwd=built,
    )  # fmt: skip
    assert done.stdout.startswith(str(built / "site"))


PROGRAM: Final = """
import sys; sys.path[:0] = sys.argv[1:]
import arneb; print(arneb.__file__)
"""


BUILDERS: Final = ("hatchling", "packaging", "pathspec", "pluggy", "trove_classifiers")
"""What makes a wheel of the source."""


def builders(directory: Path) -> dict[str, str]:
    """How pip is told not to fetch anything."""
    for name in BUILDERS:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        shutil.copytree(folder, directory / name)
        for info in folder.parent.glob(f"{name}-*.dist-info"):
            shutil.copytree(info, directory / info.name)
    return {
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # which means that there is none
        "PYTHONPATH": str(directory),
    }


def play_stage(tmp_path: Path, *, is_whole: bool) -> Path:
    """Run every RUN of the first stage; the directory that it leaves."""
    environment = {} if is_whole else builders(tmp_path / "builders")
    source, work = tmp_path / "source", tmp_path / "work"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (REPOSITORY / name).is_file() and not name.startswith(("tests/", "conformance/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, source / name)
    work.mkdir()
    user = None
    is_root = os.geteuid() == 0
    given = {"HOME": str(work), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    if not is_root:
        given["PATH"] = f"{Path(sys.executable).parent}:{given['PATH']}"
    for name, rest in stages()[0]:
        if name == "USER":
            user = int(rest.partition(":")[0])
            if is_root:
                os.chown(work, user, user)
        if name == "RUN":
            as_user = {"user": user, "group": user, "extra_groups": []} if is_root else {}
            done = subprocess.run(
                ["/bin/sh", "-ec", rest.replace("/usr/src/arneb", str(source))],
                cwd=work, env={**given, **environment}, capture_output=True, text=True,
                check=False, **as_user,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    return work
