"""Fencing races with Arneb in Pulsar's place, and the counts that they give."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.fencing.races import receipts_behind_takes

from arneb_cluster.protocol.values import Place

REPOSITORY = Path(__file__).resolve().parents[3]
RACES = 12
WITHIN_S = 180


@pytest.mark.parametrize(
    ("receipts", "takes", "behind"),
    [
        ([(1, 2), (1, 3)], [(1, 1)], []),
        ([(1, 2), (1, 4)], [(1, 1), (3, 2)], [(1, 4)]),
        ([(2, 4)], [(1, 1), (3, 2)], []),
        ([(2, 5)], [(1, 1), (3, 2), (4, 2)], []),
        ([(2, 9), (3, 9)], [(1, 1), (3, 2), (6, 3)], [(2, 9)]),
    ],
)
def test_receipts_after_a_higher_take_are_found(
    receipts: list[tuple[int, int]], takes: list[tuple[int, int]], behind: list[tuple[int, int]]
) -> None:
    def at(entry: int) -> Place:
        return Place(1, entry)

    found = receipts_behind_takes(
        [(epoch, at(entry)) for epoch, entry in receipts],
        [(at(entry), epoch) for entry, epoch in takes],
    )
    assert found == [(epoch, at(entry)) for epoch, entry in behind]


def test_nothing_after_another_leaders_take_is_confirmed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.fencing", "--service", "arneb",
         "--races", str(RACES), "--topics", "3"],
        cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    races, confirmed = (
        int(re.findall(rf"(\d+) {what}", done.stdout)[0]) for what in ("races", "confirmed")
    )
    assert races >= RACES
    assert confirmed > races
