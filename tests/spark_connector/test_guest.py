"""Readers are guests on the broker's machine: they step back before they read, and for as long as
the process lives."""

import subprocess
import sys
from dataclasses import replace

import pytest

from pyspark_arneb import batch
from pyspark_arneb.batch import BatchReader, LogPartition
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.options import ReadOptions, read_options
from pyspark_arneb.service.connection import Address

STEPS = """
import os
from pyspark_arneb.guest import step_back
before = os.nice(0)
for further in (0, 3, 1, 3):
    step_back(before + further)
    print(os.nice(0) - before)
"""


def test_a_worker_steps_back_so_far_and_never_comes_forward_again() -> None:
    command = [sys.executable, "-c", STEPS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "3", "3", "3"]


@pytest.mark.parametrize(
    ("given", "expected"), [({}, 10), ({"nice": "0"}, 0), ({"nice": "19"}, 19)]
)
def test_who_reads_a_directory_steps_back_as_far_as_the_option_says(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: int
) -> None:
    steps: list[int] = []
    monkeypatch.setattr(batch, "step_back", steps.append)
    options = read_options({"path": "/nowhere", "topic": "t", **given})
    assert list(reader(options).read(LogPartition())) == []
    assert steps == [expected]
    away = replace(options, location=Remote(Address("http://127.0.0.1:1")))
    assert list(reader(away).read(LogPartition())) == []
    assert steps == [expected], "who reads by the broker's port may be anywhere"


def reader(options: ReadOptions) -> BatchReader:
    assert isinstance(options.location, Directory | Remote)
    return BatchReader(options, [], None)
