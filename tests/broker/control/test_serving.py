"""The control socket: who may open it, how long it exists, and what it serves."""

import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.broker.node_kit import config_at, steered

from arneb.control.place import ControlPlace
from arneb.ctl.calling import SocketCaller, Unreachable
from arneb.node import process
from arneb_core.api.errors import ForeignDirectory, StoreLocked


@pytest.fixture(autouse=True)
def no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that survives, and keeps its signal handlers."""
    monkeypatch.setattr(process, "break_off_after", lambda seconds, say: None)
    monkeypatch.setattr(process.signal, "signal", lambda *args: None)  # type: ignore[attr-defined]


@pytest.mark.real_time
async def test_it_serves_the_management_api_without_a_password(tmp_path: Path) -> None:
    async with steered(config_at(tmp_path, amqp="127.0.0.1:0")) as node:
        assert (await node.ask("GET", "/api/whoami")).value == {
            "name": "rmq-cli",
            "tags": ["administrator"],
            "is_internal_user": False,
        }
        assert (await node.ask("PUT", "/api/queues/%2F/q", {})).status == 201
        assert [each["name"] for each in (await node.ask("GET", "/api/queues")).value] == ["q"]
        assert (await node.ask("GET", "/healthz")).is_done
        assert (await node.ask("GET", "/readyz")).is_done
        # The wrong credentials are ignored, and a vhost created this way belongs to nobody.
        assert (await node.ask("PUT", "/api/vhosts/v", {}, authorization="Basic eA==")).is_done
        assert (await node.ask("GET", "/api/vhosts/v/permissions")).value == []


@pytest.mark.real_time
async def test_nobody_else_may_open_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with steered(config_at(tmp_path)):
            found = (tmp_path / "data" / "arneb.sock").stat()
    finally:
        os.umask(before)
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600


@pytest.mark.real_time
async def test_it_stays_open_while_the_broker_is_stopped(tmp_path: Path) -> None:
    async with steered(config_at(tmp_path, amqp="127.0.0.1:0")) as node:
        stopped = await node.ask("POST", "/ctl/stop_app")
        assert (stopped.status, stopped.value["state"]) == (200, "stopped")
        assert (await node.ask("GET", "/ctl/about")).value["pid"] == os.getpid()
        refused = await node.ask("GET", "/api/queues")
        assert (refused.status, refused.value["error"]) == (503, "not_running")
        assert (await node.ask("POST", "/ctl/start_app")).value["state"] == "running"
        assert (await node.ask("GET", "/api/queues")).value == []


@pytest.mark.real_time
async def test_it_can_stop_the_process(tmp_path: Path) -> None:
    async with steered(config_at(tmp_path)) as node:
        assert (await node.ask("POST", "/ctl/stop")).status == 202
        await node.until("stopped")
    with pytest.raises(Unreachable):
        await trio.to_thread.run_sync(SocketCaller(tmp_path / "data").call, "GET", "/ctl/about")


@pytest.mark.real_time
async def test_unknown_requests_change_nothing(tmp_path: Path) -> None:
    async with steered(config_at(tmp_path)) as node:
        for method, path, body in (
            ("GET", "/ctl/stop_app", None),
            ("POST", "/ctl/about", None),
            ("POST", "/ctl/", None),
            ("POST", "/ctl/stop_app/", None),
        ):
            assert (await node.ask(method, path, body)).status == 404
        for body in ([1], None, {"what": 1}):
            assert (await node.ask("PUT", "/ctl/settings", body)).status == 409
        deep: Any = []
        for _ in range(500):
            deep = [deep]
        assert (await node.ask("PUT", "/ctl/settings", deep)).status == 409
        assert (await node.ask("PUT", "/ctl/settings", "[" * 100_000)).status == 409
        assert (await node.ask("POST", "/ctl/reset")).status == 409
        assert (await node.ask("GET", "/ctl/about")).value["state"] == "running"


@pytest.mark.real_time
async def test_a_directory_belongs_to_one_process_even_while_its_broker_is_stopped(
    tmp_path: Path,
) -> None:
    async with steered(config_at(tmp_path)) as node:
        await node.ask("POST", "/ctl/stop_app")
        with pytest.raises(StoreLocked, match=rf"\(process {os.getpid()}\)"):
            await trio.to_thread.run_sync(ControlPlace.claim, tmp_path / "data")
        assert (await node.ask("POST", "/ctl/start_app")).is_done


@pytest.mark.real_time
async def test_a_path_may_be_longer_than_a_sockets_name(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    async with steered(config_at(deep)) as node:
        assert (await node.ask("GET", "/ctl/about")).is_done


@pytest.mark.real_time
async def test_the_socket_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    place = ControlPlace.claim(tmp_path / "data")
    place.listen().close()
    os.close(place._fd)  # as a kill does: the name stays
    assert (tmp_path / "data" / "arneb.sock").exists()
    async with steered(config_at(tmp_path)) as node:
        assert (await node.ask("GET", "/ctl/about")).is_done
    place._fd = -1


@pytest.mark.real_time
async def test_a_process_removes_only_its_own_socket(tmp_path: Path) -> None:
    place = ControlPlace.claim(tmp_path / "data")
    place.listen().close()
    (tmp_path / "data" / "arneb.sock").unlink()
    (tmp_path / "data" / "arneb.sock").write_text("another's")
    # The file system has not given it the inode number of the socket.
    assert (tmp_path / "data" / "arneb.sock").stat().st_ino != os.fstat(place._bound).st_ino
    place.leave()
    place.leave()
    assert (tmp_path / "data" / "arneb.sock").read_text() == "another's"


def test_a_foreign_directory_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(ForeignDirectory):
        ControlPlace.claim(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.real_time
async def test_a_drain_is_visible_from_outside(tmp_path: Path) -> None:
    from dataclasses import replace

    from arneb.settings.process import StopTable

    config = replace(config_at(tmp_path), stop=StopTable(unready_s=600.0))
    async with steered(config) as node:
        assert (await node.ask("GET", "/readyz")).status == 200
        node.signals.send(signal.SIGTERM)
        await node.until("stopping on SIGTERM")
        assert (await node.ask("GET", "/readyz")).status == 503
        assert (await node.ask("GET", "/healthz")).status == 200
