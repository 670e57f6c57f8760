"""Finding the source: Spark imports every ``pyspark_*`` package, whoever wrote the job."""

import subprocess
import sys
from pkgutil import iter_modules

import pytest
from pyspark.sql.datasource import DataSource

import pyspark_arneb

HEAVY = ("lmdb", "trio", "arneb_core.store.reading.snapshot", "arneb_amqp", "arneb_pulsar", "arneb")
"""What a session that uses another source must not have to load."""


def test_the_package_is_one_that_spark_looks_at() -> None:
    assert "pyspark_arneb" in {info.name for info in iter_modules()}
    assert issubclass(pyspark_arneb.DefaultSource, DataSource)
    assert pyspark_arneb.DefaultSource.name() == "arneb"


def test_importing_the_package_loads_no_more_than_planning_needs() -> None:
    """A package that fails to import there takes all other sources with it."""
    program = f"import sys, pyspark_arneb; print([m for m in {HEAVY} if m in sys.modules])"
    path = [entry for entry in sys.path if entry]
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


def test_a_spark_that_is_too_old_has_no_such_source_and_keeps_all_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in ("pyspark_arneb.source", "pyspark_arneb.stream.reader"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, pyspark_arneb.SINCE_4_2, None)
    assert not hasattr(pyspark_arneb, "DefaultSource")
    assert "needs PySpark 4.2 or newer" in caplog.text
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyspark_arneb.plan.filters", raising=False)
    monkeypatch.delitem(sys.modules, "pyspark_arneb.batch", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        pyspark_arneb.DefaultSource  # noqa: B018
