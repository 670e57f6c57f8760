"""The audit log: every change leaves a line, and no line contains a secret."""

import json
import logging
import stat
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.node_kit import config_at, steered

from arneb.http.access.audited import Audited, outcome_of
from arneb.logs.audit_log import SHOWN, AuditLog, AuditRecord, shown_fields
from arneb.node import process
from arneb.settings.config import Config, ConfigInvalid
from arneb.settings.reloading import Reloading

SECRET = "s3cret-of-somebody"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text().splitlines()]


def a_record(action: str) -> AuditRecord:
    return AuditRecord("u", "http", "h:1", action, "done", 204)


async def asked(
    audit: AuditLog, method: str, path: str, body: bytes = b"", status: int = 204, **headers: str
) -> None:
    """One request to an application that answers so."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "client": ("10.0.0.1", 5), "query_string": b"password=" + SECRET.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }  # fmt: skip
    await Audited(app, audit, "http")(scope, receive, send)


async def test_a_change_is_recorded_with_its_author_and_outcome(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit")
    proof = "Basic " + b64encode(f"bob:{SECRET}".encode()).decode()
    body = json.dumps({"password": SECRET, "tags": ["management"]}).encode()
    await asked(audit, "PUT", "/api/users/eve", body, authorization=proof)
    await asked(audit, "DELETE", "/api/users/eve", status=401, authorization=proof)
    await asked(audit, "GET", "/api/users", status=200, authorization=proof)
    await asked(audit, "POST", "/data/v1/publish", status=200)
    await asked(audit, "POST", "/api/x", b"[" * 100_000, status=400, authorization="Bearer x")
    first, second, third = lines(tmp_path / "audit")
    assert first == {
        "time": first["time"], "user": "bob", "by": "http", "from": "10.0.0.1:5",
        "action": "PUT /api/users/eve", "outcome": "done", "status": 204,
        "fields": {"password": "…", "tags": ["management"]},
    }  # fmt: skip
    assert (second["outcome"], third["outcome"]) == ("refused", "rejected")
    assert third["user"] == "(by token)"
    assert SECRET not in (tmp_path / "audit").read_text()
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) & 0o007 == 0


KEYS = st.sampled_from(
    ["password", "password_hash", "value", "definition", "src-uri", "secret", "name", "payload"]
)


@given(st.sampled_from([*SHOWN, "parameters", "definitions", "login", ""]), st.sets(KEYS))
def test_no_field_that_may_contain_a_secret_is_shown(noun: str, keys: set[str]) -> None:
    shown = shown_fields(noun, dict.fromkeys(keys, SECRET))
    assert shown.keys() == keys
    open_ = {name for name, value in shown.items() if value == SECRET}
    assert open_ <= {"value", "definition", "name"}
    if noun not in ("vhost-limits", "user-limits"):
        assert "value" not in open_
    assert not open_ & {"password", "password_hash", "src-uri", "secret", "payload"}


def test_every_status_has_one_meaning() -> None:
    found = {status: outcome_of(status) for status in (200, 204, 400, 401, 403, 404, 409, 500, 503)}
    assert set(found.values()) == {"done", "refused", "rejected", "failed"}


async def test_a_file_that_was_moved_away_is_created_again(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit")
    await audit.record(a_record("one"))
    (tmp_path / "audit").rename(tmp_path / "audit.1")
    await audit.record(a_record("two"))
    audit.reopen()
    await audit.record(a_record("three"))
    audit.close()
    audit.close()
    assert [each["action"] for each in lines(tmp_path / "audit.1")] == ["one"]
    assert [each["action"] for each in lines(tmp_path / "audit")] == ["two", "three"]


async def test_a_disk_that_fails_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "d").mkdir()
    audit = AuditLog(tmp_path / "d" / "audit")
    (tmp_path / "d" / "audit").unlink()
    (tmp_path / "d").rmdir()
    with caplog.at_level(logging.INFO):
        await audit.record(a_record("one"))
    assert "cannot write" in caplog.text
    assert "one" in caplog.text


class Heard(AuditLog):
    """Says when it contains two signals."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.two_signals = trio.Event()
        self._signals = 0

    async def record(self, record: AuditRecord) -> None:
        await super().record(record)
        self._signals += record.by == "signal"
        if self._signals == 2:
            self.two_signals.set()


@pytest.mark.real_time
async def test_actions_by_control_socket_and_by_signal_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    monkeypatch.setattr(process, "break_off_after", lambda seconds, say: None)
    monkeypatch.setattr(process.signal, "signal", lambda *args: None)  # type: ignore[attr-defined]
    audit = Heard(tmp_path / "audit")
    config = config_at(tmp_path, amqp="127.0.0.1:0")
    answers = [config]

    def load() -> Config:
        if not answers:
            raise ConfigInvalid("not TOML")
        return answers.pop()

    async with steered(config, Reloading(load), audit) as node:
        assert (await node.ask("PUT", "/api/users/u", {"password": SECRET, "tags": ""})).is_done
        assert (await node.ask("POST", "/ctl/stop_app")).is_done
        assert (await node.ask("PUT", "/api/users/u", {})).status == 503
        node.signals.send(signal.SIGHUP)
        node.signals.send(signal.SIGHUP)
        assert (await node.ask("POST", "/ctl/start_app")).is_done
        with trio.fail_after(20):
            await audit.two_signals.wait()
    found = [(each["by"], each["action"], each["outcome"]) for each in lines(tmp_path / "audit")]
    assert ("control", "PUT /api/users/u", "done") in found
    assert ("control", "POST /ctl/stop_app", "done") in found
    assert ("control", "PUT /api/users/u", "failed") in found
    outcomes = [outcome for by, action, outcome in found if (by, action) == ("signal", "SIGHUP")]
    assert outcomes == ["done", "rejected"]
    assert SECRET not in (tmp_path / "audit").read_text()
