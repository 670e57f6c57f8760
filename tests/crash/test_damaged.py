"""Starts with a damaged journal lose nothing without saying so; see :mod:`tests.crash.damaged`."""

import shutil
import tempfile
from pathlib import Path

import pytest
from tests.crash.damaged import Seen, fast_place, judge, main
from tests.crash.running import survives

from arneb_core.api.entries.position import position_at

SECONDS_PER_KILL_MAX = 40


def test_no_start_with_a_damaged_journal_loses_anything_in_silence(
    request: pytest.FixtureRequest,
) -> None:
    kills: int = request.config.getoption("damaged_kills")
    seed: int | None = request.config.getoption("crash_seed")
    directory = Path(tempfile.mkdtemp("", "arneb-crash-", fast_place()))
    survives(
        "tests.crash.damaged", kills, seed, directory, seconds_per_kill_max=SECONDS_PER_KILL_MAX
    )
    shutil.rmtree(directory)  # kept if the run fails


def test_a_run_whose_journals_held_nothing_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--kills", "0", "--directory", str(tmp_path / "run")]) == 1
    assert "nothing was tested: the journal held no entry" in capsys.readouterr().out


LOG = {position_at(1, index): b"%d" % index for index in range(4)}
WORD = "the journal lacks records: record 2 is lost; topic 'public/default/q' entry 1:1 is lost"


def state(*missing: int, gaps: tuple[int, ...] = ()) -> Seen:
    left = {place: body for place, body in LOG.items() if place & 0xFF not in missing}
    return Seen({"q": left}, {"q": {position_at(1, index) for index in gaps}})


def test_the_judge_finds_nothing_where_everything_is_there_or_said() -> None:
    assert judge(state(), state(), "", "no findings") == []
    assert judge(state(), state(1, gaps=(1,)), WORD, "journal-damaged") == []
    assert judge(state(), state(3), "the journal is missing", "journal-damaged") == []


@pytest.mark.parametrize(
    ("after", "output", "checked"),
    [
        (state(3), "", "journal-damaged"),
        (state(3), "the journal is missing", "no findings"),
        (state(1), WORD, "journal-damaged"),
        (state(2, gaps=(2,)), WORD, "journal-damaged"),
        (Seen({"q": LOG | {position_at(1, 3): b"other"}}, {"q": set()}), WORD, "journal-damaged"),
        (Seen({"q": LOG | {position_at(1, 4): b"new"}}, {"q": set()}), "", ""),
    ],
    ids=["start silent", "check silent", "no gap", "gap not named", "rewritten", "invented"],
)
def test_the_judge_finds_each_broken_promise(after: Seen, output: str, checked: str) -> None:
    assert judge(state(), after, output, checked)
