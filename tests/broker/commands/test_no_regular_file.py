"""Commands refuse a FIFO in place of a store's file at once: opening it would wait for ever."""

import os
import subprocess
from pathlib import Path

import pytest
from conformance.brokers.arneb import arneb_command, arneb_environment

from arneb_core.store.data_file.opening import DATA_NAME, LOCK_NAME

WITHIN_S = 60.0
NOWHERE = [f"--{name}=off" for name in ("amqp", "pulsar", "http", "http-pulsar")]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (DATA_NAME, ["check", "DIR"]),
        (DATA_NAME, ["topics", "DIR"]),
        (DATA_NAME, ["doctor", "DIR"]),
        (DATA_NAME, ["backup", "DIR", "OUT"]),
        (DATA_NAME, ["salvage", "DIR", "OUT"]),
        (DATA_NAME, ["compact-store", "DIR"]),
        (DATA_NAME, ["compact-store", "--no-check", "DIR"]),
        (DATA_NAME, ["serve", "--data-dir", "DIR", *NOWHERE]),
        (LOCK_NAME, ["serve", "--data-dir", "DIR", *NOWHERE]),
        (LOCK_NAME, ["salvage", "DIR", "OUT"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_fifo_is_refused_at_once(
    directory: Path, tmp_path: Path, name: str, command: list[str]
) -> None:
    (directory / name).unlink()
    os.mkfifo(directory / name, 0o640)
    names = {"DIR": str(directory), "OUT": str(tmp_path / "out")}
    done = subprocess.run(
        [*arneb_command(), *(names.get(each, each) for each in command)],
        env=arneb_environment(),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "not a regular file" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
