"""The tests that are left out of the compiled run reach nothing that is compiled."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hatch_build import HOT, ROOT
from tests import compiled_run
from tests.compiled_run import OTHER_SUBJECTS, UNREACHING, is_left_out, not_compiled
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
