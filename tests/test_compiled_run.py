"""The tests that are left out of the compiled run reach nothing that is compiled."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatch_build import HOT, ROOT
from tests import compiled_run
from tests.compiled_run import (
    OTHER_SUBJECTS,
    UNREACHING,
    examples_of,
    is_left_out,
    not_compiled,
)
from tests.reaching import reached

COMPILED = {".".join(Path(each).with_suffix("").parts[1:]) for each in HOT}


def files(name: str) -> Iterator[Path]:
    path = ROOT / name
    return path.rglob("test_*.py") if path.is_dir() else iter([path])


@pytest.mark.parametrize("name", UNREACHING)
def test_what_is_left_out_reaches_no_compiled_module(name: str) -> None:
    found = list(files(name))
    assert found
    for file in found:
        assert is_left_out(file)
        assert not reached(file) & COMPILED, file


@pytest.mark.parametrize(
    ("file", "by"),
    [
        ("tests/amqp_frontend/wire/test_frames.py", "an import"),
        ("tests/amqp_frontend/server/test_rights.py", "helpers of tests"),
        ("tests/broker/test_cli.py", "the program, by its name"),
        ("tests/crash/test_sigkill.py", "a module that is started"),
        ("tests/crash/test_access.py", "a program in a text"),
        ("tests/core/dispatch/test_key_shared.py", "the codecs that are loaded by name"),
        ("tests/spark_connector/test_executors_die.py", "a file that is started"),
        ("tests/spark_connector/test_spark_sql.py", "Spark's name for the connector"),
        ("tests/pulsar_client/test_producing.py", "a folder's conftest.py"),
    ],
)
def test_every_way_to_a_compiled_module_is_seen(file: str, by: str) -> None:
    assert reached(ROOT / file) & COMPILED, by
    assert not is_left_out(ROOT / file)


def test_what_is_left_out_for_its_subject_is_there() -> None:
    for name in OTHER_SUBJECTS:
        found = list(files(name))
        assert found and all(each.exists() and is_left_out(each) for each in found), name


def test_a_name_that_begins_alike_is_not_left_out() -> None:
    assert not is_left_out(ROOT / "tests/cluster/test_applying_more.py")
    assert not is_left_out(ROOT / "tests/cluster")


def test_a_module_that_is_not_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the whole run would be one of pure modules."""
    monkeypatch.setattr(compiled_run, "HOT", ("amqp_frontend/arneb_amqp/errors.py",))
    assert not_compiled() == ["amqp_frontend/arneb_amqp/errors.py"]


def test_what_is_compiled_is_tried_with_all_examples_and_the_rest_with_a_quarter() -> None:
    assert examples_of(ROOT / "tests/amqp_frontend/wire/test_frames.py", 100) == 100
    assert examples_of(ROOT / "tests/core/engine/test_engine.py", 100) == 25
    assert examples_of(ROOT / "tests/core/engine/test_engine.py", 3) == 1


def test_the_run_gives_files_their_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of pytest itself, which imports a file only after the profile was chosen."""
    monkeypatch.delenv("LOCKS_OF_TESTS", raising=False)
    program = (
        "import sys, pytest, tests.compiled_run as run\n"
        "run.HOT = ()\n"
        "class Seen:\n"
        "    def pytest_collection_finish(self, session):\n"
        "        for item in session.items:\n"
        "            asked = getattr(item.obj, '_hypothesis_internal_use_settings', None)\n"
        "            if asked is not None: print('SEEN', item.name, asked.max_examples)\n"
        "sys.exit(pytest.main(sys.argv[1:], plugins=[Seen()]))\n"
    )
    files = ("tests/amqp_frontend/test_plain_strings.py", "tests/core/api/entries/test_entry.py")
    options = ("--on-compiled", "--hypothesis-profile=ci", "--collect-only", "-q")
    done = subprocess.run(
        [sys.executable, "-c", program, *options, *files],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen = {line.split()[-1] for line in done.stdout.splitlines() if line.startswith("SEEN")}
    assert seen == {"25", "100"}, done.stdout
