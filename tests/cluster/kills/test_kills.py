"""A short run of kills under a mixed load, and the canary that must notice what goes wrong."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conformance.brokers.process import Address
from tests.cluster.kills.canary import Canary
from tests.cluster.kills.equal import differences

from arneb_core.api.entries.position import position_at
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, TopicId
from arneb_core.testing.store_kit import entry

REPOSITORY = Path(__file__).resolve().parents[3]
WITHIN_S = 650
"""Ten lives, on a busy machine."""
PLAYERS = "fan,dying,keys,stream,moved,delayed"


def heard(*deliveries: tuple[int, int, bool]) -> list[str]:
    """What a canary notices; each delivery is the consumer, the number, and whether it is
    flagged."""
    canary = Canary(lambda: Address("127.0.0.1", 1), [])
    for consumer, number, redelivered in deliveries:
        canary._hear(consumer, number, redelivered)
    return canary.anomalies


def test_a_canary_accepts_a_consumer_that_follows_another() -> None:
    assert not heard((1, 1, False), (1, 2, False), (2, 2, True), (2, 3, False))


@pytest.mark.parametrize(
    ("deliveries", "expected"),
    [
        ([(1, 1, False), (2, 2, False), (1, 3, False)], "after 2 was active"),
        ([(1, 1, False), (1, 1, False)], "without the redelivered flag"),
        ([(1, 2, False), (1, 1, False)], "1 came after 2"),
    ],
)
def test_a_canary_notices(deliveries: list[tuple[int, int, bool]], expected: str) -> None:
    (anomaly,) = heard(*deliveries)
    assert expected in anomaly


def directory(path: Path, *commits: Changes) -> Path:
    with Store.open(path) as store:
        for each in commits:
            store.commit(each)
    return path


def test_directories_are_compared_by_content_and_every_difference_is_found(
    tmp_path: Path,
) -> None:
    topic = TopicId(1)
    run = (topic, position_at(1, 0), [entry(b"a"), entry(b"b")])
    row = (Table.CATALOG, b"frontend/x", b"1")
    one = directory(tmp_path / "one", Changes(blocks=[run], puts=[row]))
    parts = [Changes(blocks=[(topic, position_at(1, n), [each])]) for n, each in enumerate(run[2])]
    same = directory(tmp_path / "same", Changes(puts=[row]), *parts)
    assert not differences({"one": one, "same": same})
    trimmed = directory(
        tmp_path / "trimmed", Changes(puts=[row]), *parts,
        Changes(trims=[(topic, position_at(1, 0), position_at(1, 0))]),
    )  # fmt: skip
    assert not differences({"one": one, "trimmed": trimmed})
    nothing = directory(tmp_path / "nothing", Changes(puts=[row]))
    assert differences({"one": one, "nothing": nothing})
    for name, changes in {
        "row": Changes(blocks=[run], puts=[(*row[:2], b"2")]),
        "more": Changes(blocks=[run], puts=[row, (Table.CATALOG, b"frontend/y", b"1")]),
        "entry": Changes(
            blocks=[(topic, position_at(1, 0), [entry(b"a"), entry(b"c")])], puts=[row]
        ),
    }.items():
        other = directory(tmp_path / name, changes)
        (difference,) = differences({"one": one, name: other})
        assert "1 differ" in difference


@pytest.mark.timeout(WITHIN_S + 50)
def test_a_cluster_keeps_its_promises_whatever_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "output"
    command = [sys.executable, "-u", "-m", "tests.cluster.kills.mixed", "--service", "arneb"]
    with output.open("w") as out, suppress(subprocess.TimeoutExpired):
        subprocess.call(
            [*command, "--times", "1", "--players", PLAYERS], cwd=REPOSITORY, timeout=WITHIN_S,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    assert "no promise broken" in output.read_text(), output.read_text()
