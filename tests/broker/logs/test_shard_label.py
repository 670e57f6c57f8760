"""Log lines and audit records name the shard, if there are several."""

import json
import logging
from pathlib import Path

import trio

from arneb.logs.audit_log import AuditRecord
from arneb.logs.log_lines import TEXT_FORMAT, JsonFormatter, VisibleFormatter
from arneb.logs.shard_label import labelled_shard, shard_label


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("arneb.x", logging.ERROR, "", 0, message, args, None)


def test_a_line_names_it_once_and_a_json_record_in_a_field() -> None:
    entry = record("%s is short", "disk")
    with labelled_shard("audit"):
        text = VisibleFormatter(TEXT_FORMAT).format(entry)
        again = VisibleFormatter(TEXT_FORMAT).format(entry)
        found = json.loads(JsonFormatter().format(entry))
    assert text.endswith("ERROR arneb.x: shard audit: disk is short")
    assert text == again
    assert (found["message"], found["shard"]) == ("disk is short", "audit")
    assert VisibleFormatter(TEXT_FORMAT).format(entry).endswith("x: disk is short")
    assert "shard" not in json.loads(JsonFormatter().format(entry))


def test_an_audit_record_names_it_too() -> None:
    done = AuditRecord("anna", "http", "here", "PUT /api/users/x", "done", 201)
    with labelled_shard("audit"):
        assert json.loads(done.line(0))["shard"] == "audit"
    assert "shard" not in json.loads(done.line(0))


async def test_tasks_and_threads_begun_for_a_shard_belong_to_it(tmp_path: Path) -> None:
    found: list[str] = []

    async def look() -> None:
        found.append(shard_label())
        found.append(await trio.to_thread.run_sync(shard_label))

    async with trio.open_nursery() as nursery:
        with labelled_shard("audit"):
            nursery.start_soon(look)
        nursery.start_soon(look)
    assert sorted(found) == ["", "", "audit", "audit"]
