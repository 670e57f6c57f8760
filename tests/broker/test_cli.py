"""The command line as its user sees it: real processes, free ports, real signals."""

import json
import os
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import lmdb
import pytest

from arneb.demo.process import STOP_WITHIN_S, BrokerProcess

GUEST = {"authorization": f"Basic {b64encode(b'guest:guest').decode()}"}
NOTHING_ON = ("--amqp=off", "--pulsar=off", "--http=off", "--http-pulsar=off")


def arneb(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arneb", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def refused(*arguments: str | Path) -> str:
    """The one line with which a command is refused."""
    done = arneb(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("arneb: ")
    return line.removeprefix("arneb: ")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data) as process:
        yield process


def test_every_listener_is_announced_with_its_real_port(broker: BrokerProcess) -> None:
    assert set(broker.addresses) == {"amqp", "pulsar", "http"}
    for address in broker.addresses.values():
        socket.create_connection((address.host, address.port)).close()
    with urlopen(f"http://{broker.addresses['http']}/healthz") as answer:
        assert json.load(answer)["status"] == "ok"


def test_a_listener_that_is_off_is_not_announced(data: Path) -> None:
    with BrokerProcess(data, listeners=("http",)) as broker:
        assert set(broker.addresses) == {"http"}


def wait_until_ready(broker: BrokerProcess) -> None:
    """Its addresses are known before everything is served there."""
    while True:
        try:
            urlopen(f"http://{broker.addresses['http']}/readyz").close()
        except HTTPError as answer:
            assert answer.code == 503
        else:
            return


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_in_order(data: Path, number: signal.Signals) -> None:
    with BrokerProcess(data) as broker:
        wait_until_ready(broker)
        connection = socket.create_connection(
            (broker.addresses["amqp"].host, broker.addresses["amqp"].port)
        )
        assert broker.stop(number) < STOP_WITHIN_S
        connection.close()
    assert broker.returncode == 0
    lines = ["Server startup complete", f"stopping on {number.name}", "stopped"]
    assert broker.last_words.splitlines() == lines
    assert arneb("check", data).returncode == 0


def test_an_idle_broker_is_small(broker: BrokerProcess) -> None:
    assert broker.memory_mb < 70, (
        "with all ports, transactions, the management API and the data API loaded"
    )


def test_a_second_broker_on_a_directory_is_refused(broker: BrokerProcess, data: Path) -> None:
    line = refused("serve", "--data-dir", data, *NOTHING_ON)
    assert line == f"{data} is in use by another broker (process {broker.pid})"


def test_a_port_in_use_is_refused_and_nothing_is_touched(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refused("serve", "--data-dir", data, "--amqp", address, *NOTHING_ON[1:])
    assert line == f"cannot listen for amqp on {address}: Address already in use"
    assert not data.exists()


def test_a_foreign_directory_is_refused_and_nothing_is_touched(data: Path) -> None:
    data.mkdir()
    (data / "thesis.txt").write_text("all of it")
    before = contents(data)
    for command in (["serve", *NOTHING_ON, "--data-dir"], ["check"], ["topics"]):
        assert str(data) in refused(*command, data)
        assert contents(data) == before


def test_another_format_is_refused_and_nothing_is_touched(data: Path) -> None:
    with BrokerProcess(data, listeners=()):
        pass
    with lmdb.open(str(data), max_dbs=10, lib_version=0) as env:
        meta = env.open_db(b"meta", create=False)
        with env.begin(write=True) as txn:
            txn.put(b"format", (99).to_bytes(4, "big"), db=meta)
    before = contents(data)
    for command in (["serve", *NOTHING_ON, "--data-dir"], ["check"], ["topics"]):
        line = refused(*command, data)
        assert "format 99" in line
        assert "reads format 4" in line
    after = contents(data)
    for name in ("data.mdb", "arneb.lock"):
        assert after[name] == before[name]


def test_a_wrong_configuration_is_refused_and_nothing_is_touched(
    tmp_path: Path, data: Path
) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text("[amqp]\nlissten = 'off'\n")
    line = refused("serve", "--config", file, "--data-dir", data)
    assert line == f'{file}: unknown key "amqp.lissten"; did you mean "amqp.listen"?'
    line = refused("serve", "--config", tmp_path / "absent.toml", "--data-dir", data)
    assert line == f"cannot read {tmp_path / 'absent.toml'}: No such file or directory"
    assert not data.exists()


@pytest.mark.parametrize("arguments", [["serve", "--prot", "1"], ["sreve"], ["check"], ["topics"]])
def test_wrong_usage_is_one_line(arguments: list[str]) -> None:
    refused(*arguments)


def test_a_path_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, tmp_path / "absent"):
        for command in ("check", "topics"):
            assert str(path) in refused(command, path)
    assert refused("serve", *NOTHING_ON, "--data-dir", file)


def test_topics_of_an_unreachable_broker_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    assert refused("topics", url) == f"cannot reach {url}: Connection refused"
    assert refused("topics", "ftp://x") == "expected http://HOST:PORT, got ftp://x"


def test_check_names_each_finding(data: Path) -> None:
    with BrokerProcess(data, listeners=()):
        pass
    with lmdb.open(str(data), max_dbs=10, lib_version=0) as env:
        cursors = env.open_db(b"cursors", create=False)
        with env.begin(write=True) as txn:
            txn.put(b"\0\0\0\1\0\0\0\1\0", b"short", db=cursors)
            txn.put(b"\0\0\0\2\0\0\0\1\0", b"short", db=cursors)
    done = arneb("check", data)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) >= 2
    assert "finding" in done.stderr


def test_version_and_help_need_no_broker() -> None:
    assert arneb("--version").stdout == f"arneb, version {version('arneb')}\n"
    done = arneb("--help")
    assert done.returncode == 0
    for command in ("serve", "check", "topics"):
        assert command in done.stdout
        assert arneb(command, "--help").returncode == 0


def test_after_a_kill_the_next_broker_can_start(data: Path) -> None:
    with BrokerProcess(data, listeners=()) as broker:
        broker.kill()
    with BrokerProcess(data, listeners=("http",)) as broker:
        assert broker.returncode is None
    assert arneb("check", data).returncode == 0


def test_the_reader_of_the_first_lines_may_leave(data: Path) -> None:
    """``arneb serve | head -1`` must not end the broker with a broken pipe."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        [sys.executable, "-m", "arneb", "serve", "--data-dir", data, *NOTHING_ON],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    # Once the store exists the broker obeys signals, and is about to print.
    while not (data / "data.mdb").exists():
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
    process.terminate()
    _, errors = process.communicate(timeout=STOP_WITHIN_S)
    assert process.returncode == 0, errors
    assert errors == ""


def test_alarms_are_shown_and_their_watermarks_moved(broker: BrokerProcess) -> None:
    url = f"http://{broker.addresses['http']}"
    memory, disk = arneb("alarms", url, "--disk-free-min-bytes=0").stdout.splitlines()
    assert memory.startswith("memory: ok, memory_used_bytes ")
    assert disk.startswith("disk: ok, disk_free_bytes ")
    memory, disk = arneb("alarms", url, "--memory-high-watermark=0").stdout.splitlines()
    assert memory.startswith("memory: ALARM, ")
    assert disk.endswith("disk_free_min_bytes 0")
    with urlopen(Request(f"{url}/metrics", headers=GUEST)) as page:
        assert b"arneb_memory_alarm 1.0" in page.read()


def test_alarms_are_refused_in_one_line(broker: BrokerProcess) -> None:
    url = f"http://{broker.addresses['http']}"
    assert "from 0 to 1, got 2.0" in refused("alarms", url, "--memory-high-watermark=2")
    assert refused("alarms", "here") == "expected http://HOST:PORT, got here"
    assert "Not Found" in refused("alarms", f"{url}/nowhere")
    assert "cannot reach" in refused("alarms", "http://127.0.0.1:1")
