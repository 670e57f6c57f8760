"""The commands on the sealed tier, as a user types them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lake_kit import amqp_entries, log_rows, sealed, table_rows, write_ledgers
from log_generator import LogWriter

from arneb.cli import main
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.target import causes


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three closed ledgers and a growing one."""
    write_ledgers(tmp_path / "log", 3)
    return tmp_path / "log"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """A command's exit status, output and errors."""
    close_environments()
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    output, errors = capsys.readouterr()
    status = left.value.code
    assert isinstance(status, int)
    return status, output, errors


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line with which a command is refused."""
    status, _, errors = run(capsys, *words)
    assert status == 2
    assert errors.startswith("arneb: ")
    assert errors.count("\n") == 1
    return errors


def test_offload_says_what_went_and_nothing_goes_twice(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    status, output, _ = run(capsys, "offload", log, tmp_path / "lake", "orders")
    assert status == 0
    assert "public/default/orders: ledgers 1 to 3, 60 rows" in output
    assert run(capsys, "offload", log, tmp_path / "lake")[1] == "0 ledgers, 0 rows, 0 bytes\n"
    assert table_rows(tmp_path / "lake") == log_rows(log, through=3)


def test_sql_sees_the_sealed_files_and_the_live_tail(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    ask = ("sql", "select count(*) n, max(decode(value)::int) m from orders", "--log", log)
    expected = "n,m\n70,69\n"
    assert run(capsys, *ask, "--format", "csv")[1] == expected
    run(capsys, "offload", log, lake)
    assert run(capsys, *ask, "--lake", lake, "--format", "csv")[1] == expected
    sealed_only = run(
        capsys, "sql", "select count(*) n from orders", "--lake", lake, "--format", "json"
    )
    assert json.loads(sealed_only[1]) == {"n": 60}
    joined = (
        "select o.key, count(*) from orders o join orders p using (entry_id, ledger_id) "
        "group by all order by all"
    )
    assert "key-0  24" in run(capsys, "sql", joined, "--log", log, "--lake", lake)[1]


def test_sql_says_that_a_tier_has_nothing(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    counted = ("sql", "select count(*) n from orders", "--log", log, "--format", "csv")
    status, output, errors = run(capsys, *counted, "--lake", tmp_path / "lke")
    assert (status, output) == (0, "n\n70\n")
    assert errors == f"arneb: nothing is sealed in {tmp_path / 'lke'}\n"


def test_what_an_object_store_says_is_one_line() -> None:
    drawn = (
        "Not supported\n   \x1b[31m\u21b3\x1b[0m no credentials:\n  \x1b[31m\u21b3\x1b[0m denied.\n"
    )
    assert causes(OSError(drawn)) == "Not supported: no credentials: denied"


def test_sql_sees_no_erased_key(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    run(capsys, "offload", log, lake)
    status, output, _ = run(capsys, "erase", lake, "orders", "--key", "key-1", "--key", "none")
    assert (status, output) == (0, "20 rows erased, 1 files deleted\n")
    counts = ("sql", "select key, count(*) n from orders group by all order by all")
    rows = run(capsys, *counts, "--log", log, "--lake", lake, "--format", "csv")[1]
    assert rows == "key,n\nkey-0,24\nkey-2,23\n"
    only = ("sql", "select count(*) n from orders", "--log", log, "--lake", lake)
    assert run(capsys, *only, "--format", "csv")[1] == "n\n47\n"


def test_sql_answers_as_of_one_instant_while_the_log_is_trimmed(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    run(capsys, "offload", log, lake)
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=4, entries=10)
        for ledger in (1, 2, 3):
            writer.trim("orders", ledger)
    counted = ("sql", "select count(*) n from orders", "--log", log, "--format", "csv")
    assert run(capsys, *counted, "--lake", lake)[1] == "n\n70\n"
    assert run(capsys, *counted)[1] == "n\n10\n"


def test_sql_says_what_was_removed_before_it_was_sealed(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    run(capsys, "offload", log, lake)
    close_environments()
    with LogWriter(log) as writer:
        writer.adopt("orders", ledger=4, entries=10)
        writer.roll("orders")
        writer.append("orders", amqp_entries(5, start=100))
        writer.trim("orders", 4)
    counted = ("sql", "select count(*) n from orders", "--log", log, "--lake", lake)
    status, output, errors = run(capsys, *counted, "--format", "csv")
    assert (status, output) == (0, "n\n65\n")
    assert errors == "arneb: 10 messages of orders were removed before they were sealed\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("offload", "LOG", "ftp://x"), "expected a directory or a URI of"),
        (("offload", "NOWHERE", "LAKE"), "holds no Arneb store"),
        (
            ("offload", "LOG", "LAKE", "ordrs"),
            "ordrs; did you mean orders?",
        ),
        (("offload", "LOG", "LAKE", "a", "--topics-pattern", "b"), "not both"),
        (("offload", "LOG", "LAKE", "a/b"), "expected topic, tenant/namespace/topic or"),
        (("offload", "LOG", "LAKE", "--storage", "region"), "expected KEY=VALUE, got region"),
        (("erase", "LAKE", "orders", "--key", "k"), "has no table of persistent://"),
        (("erase", "LAKE", "a/b", "--key", "k"), "expected topic, tenant/namespace/topic or"),
        (("sql", "select * from ordrs", "--log", "LOG"), "not exist; did you mean orders?"),
        (("sql", 'from "x/y/zz"', "--log", "LOG"), "not exist; there are orders"),
        (
            ("sql", "from topics", "--log", "LOG"),
            "Table with name topics does not exist; there are orders",
        ),
        (("sql", "selec 1", "--log", "LOG"), 'Parser Error: syntax error at or near "selec"'),
        (("sql", "select nope from orders", "--log", "LOG"), 'Referenced column "nope" not found'),
        (("sql", "select 1; select 2", "--log", "LOG"), "expected one query"),
        (("sql", " ", "--log", "LOG"), "expected a query, got an empty text"),
        (("sql", "select 1", "--log", "NOWHERE"), "holds no Arneb store"),
        (("sql", "select value::int from orders", "--log", "LOG"), "Error"),
    ],
)
def test_what_a_user_can_do_wrong_is_one_line(
    capsys: pytest.CaptureFixture[str],
    log: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    expected: str,
) -> None:
    places = {"LOG": log, "LAKE": tmp_path / "lake", "NOWHERE": tmp_path / "nowhere"}
    assert expected in refusal(capsys, *(places.get(word, word) for word in words))


def test_a_service_follows_the_log_until_it_is_stopped(log: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    process = subprocess.Popen(
        [sys.executable, "-m", "arneb", "offload", log, lake, "--follow", "--interval", "0.1"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
    )
    with process:
        assert process.stdout is not None
        assert "ledgers 1 to 3, 60 rows" in process.stdout.readline()
        close_environments()
        with LogWriter(log) as writer:
            writer.adopt("orders", ledger=4, entries=10)
            writer.append("orders", amqp_entries(3, start=70))
            writer.roll("orders")
        assert "ledger 4, 13 rows" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read().startswith("4 ledgers, 73 rows")
    assert process.returncode == 0
    assert sealed(lake).version > 0
    assert table_rows(lake) == log_rows(log)
