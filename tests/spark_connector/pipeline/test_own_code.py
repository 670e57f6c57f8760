"""Arneb's own code as an archive: executors run what the job was submitted with."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_arneb.pipeline import session
from pyspark_arneb.pipeline.own_code import archive, packages

IMPORTING = """
import sys
ours = ("arneb_core", "arneb_amqp", "arneb_pulsar", "pyspark_arneb")
sys.path.insert(0, sys.argv[1])  # as Spark does
import pyspark_arneb.pipeline.audit, pyspark_arneb.source
from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import Origin
assert {Origin.AMQP, Origin.PULSAR} <= codecs().keys(), codecs()
for name in ours:
    assert sys.modules[name].__file__.startswith(sys.argv[1]), sys.modules[name]
"""


def test_it_has_all_that_executors_import_and_the_codecs(tmp_path: Path) -> None:
    assert packages() == ["arneb_amqp", "arneb_core", "arneb_pulsar", "pyspark_arneb"]
    file = archive(tmp_path)
    subprocess.run([sys.executable, "-c", IMPORTING, file], check=True, cwd=tmp_path)


class FakeSession:
    """Notes what it is handed."""

    def __init__(self) -> None:
        self.handed: list[Any] = []
        self.sparkContext = self
        self.dataSource = self

    def addPyFile(self, path: str) -> None:  # noqa: N802
        self.handed.append(("py file", Path(path).exists()))

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802
        self.handed.append(("artifact", Path(path).exists(), pyfile))

    def register(self, source: type) -> None:
        self.handed.append(source.__name__)

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    ("master", "handed"),
    [
        ("local[*]", []),
        ("local", []),
        ("spark://host:7077", [("py file", True), "DefaultSource"]),
        ("local-cluster[2,1,1024]", [("py file", True), "DefaultSource"]),
        ("sc://host:15002", [("artifact", True, True), "DefaultSource"]),
    ],
)
def test_executors_elsewhere_get_it(
    monkeypatch: pytest.MonkeyPatch, master: str, handed: list[Any]
) -> None:
    fake = FakeSession()
    monkeypatch.setattr(session, "_made", lambda name, master, conf: fake)
    with session.spark_session("a job", master) as made:
        assert made is fake  # type: ignore[comparison-overlap]
    assert fake.handed == handed
