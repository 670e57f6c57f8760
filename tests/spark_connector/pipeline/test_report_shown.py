"""A report as it is shown: whole names, and rates that fit one another."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.commands.report import NAME_WIDTH, show
from pyspark_arneb.pipeline.report import Report, Spread, TopicReport, dense
from pyspark_arneb.pipeline.report_page import page

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "persistent://public/shop/a-queue-with-a-name-that-is-rather-long-for-a-table"


def topic_of(counts: list[int], point_s: int) -> TopicReport:
    """A topic of which so many messages came in each stretch of time."""
    begun = (BEGIN + timedelta(seconds=point_s * n) for n in range(len(counts)))
    points = dense({at: count for at, count in zip(begun, counts, strict=True) if count}, point_s)
    first, last = points[0].at, points[-1].at
    reasons, keys = {"rejected": 12}, [("a-key", 3)]
    return TopicReport(
        NAME, sum(counts), 1_000, first, last, Spread(), 0, reasons, keys, points, point_s
    )


@given(
    counts=st.lists(st.integers(0, 1000), min_size=1, max_size=50).filter(any),
    point_s=st.integers(1, 3600),
)
def test_no_average_is_above_its_peak(counts: list[int], point_s: int) -> None:
    topic = topic_of(counts, point_s)
    assert 0 < topic.per_s <= topic.peak_per_s * (1 + 1e-9)


def test_a_file_has_every_name_whole_and_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(Report([topic_of([3, 0, 6], 2)], []))
    (_, row) = capsys.readouterr().out.splitlines()
    assert row.split() == [
        NAME, "9", "1,000", "1.5", "3.0", "0", "0", "rejected", "12", "a-key", "3",
    ]  # fmt: skip


def test_a_narrow_terminal_has_it_whole_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    show(Report([topic_of([1], 1)], []))
    lines = capsys.readouterr().out.splitlines()
    begins = next(n for n, line in enumerate(lines) if line.startswith(" persistent:"))
    assert "".join(line[1 : 1 + NAME_WIDTH].strip() for line in lines[begins:]) == NAME


def test_a_plot_falls_to_nothing_where_nothing_came() -> None:
    topic = topic_of([20, 0, 0, 1], 2)
    assert [each.messages for each in topic.over_time] == [20, 0, 0, 1]
    assert "0.0,16.0 213.3,120.0 426.7,120.0 640.0,114.8" in page(Report([topic], []), BEGIN)


def test_a_plot_of_more_than_a_day_has_the_dates() -> None:
    shown = page(Report([topic_of([1, 0, 1], 3600), topic_of([1, 0, 1], 86_400)], []), BEGIN)
    assert ">00:00:00<" in shown
    assert ">2026-01-03 00:00<" in shown
