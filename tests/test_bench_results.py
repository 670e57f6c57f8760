"""What the benchmark tells of its figures: medians over all rounds, of however many runs."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from bench import report
from bench.chart import chart
from bench.rows import Row
from bench.samples import Samples, add
from hypothesis import given
from hypothesis import strategies as st


def _measure(*_: object) -> dict[str, float]:
    raise AssertionError("nothing is measured here")


ROWS = [
    Row("a", "first", "msg/s", _measure, {"": "≥ 2"}, shape=100.0),
    Row("b", "second", "msg/s", _measure, shape=200.0),
    Row("c", "third", "msg/s", _measure, shape=400.0),
    Row("p", "late", "ms", _measure, lower_is_better=True),
]


def samples_of(**rates: dict[str, list[float]]) -> Samples:
    """What a run has found, by row and broker."""
    samples = Samples(flush_us=[50.0])
    for row, brokers in rates.items():
        for broker, values in brokers.items():
            add(samples.figures, row, broker, values)
    return samples


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["rabbitmq", "arneb"]), st.floats(1, 9))
    ),
    st.integers(0, 30),
)
def test_rounds_of_two_runs_are_those_of_one(found: list[tuple[str, str, float]], cut: int) -> None:
    def run(part: list[tuple[str, str, float]]) -> Samples:
        samples = Samples()
        for row, broker, value in part:
            add(samples.figures, row, broker, [value])
            add(samples.cpu_us, row, broker, [value])
        return samples

    both = run(found[:cut])
    both.take(Samples.of(json.loads(json.dumps(asdict(run(found[cut:]))))))
    assert both == run(found)


def test_a_ratio_is_one_of_medians_for_each_broker() -> None:
    found = samples_of(
        a={"rabbitmq": [10, 1, 30], "arneb": [40, 20, 90], "compiled": [50, 50, 1]},
        p={"rabbitmq": [4], "arneb": [2]},
    )
    first, late = report.lines(ROWS, found)
    assert (first.base, first.subject, first.ratio) == (10, 40, 4)
    assert first.brokers["compiled"].ratio == 5
    assert late.ratio == 2


@pytest.mark.parametrize(
    ("third", "word"), [(400, "1.00"), (520, "1.30, outside"), (280, "0.70, outside")]
)
def test_a_row_in_which_rabbitmq_is_out_of_proportion_says_so(third: float, word: str) -> None:
    """All twice as fast as when the goals were set is the same proportions."""
    rates = {"a": 200, "b": 400, "c": 2.0 * third}
    found = samples_of(**{row: {"rabbitmq": [rate]} for row, rate in rates.items()})
    rows = report.table(report.lines(ROWS, found)).splitlines()
    assert [cell.strip() for cell in rows[0].split("|")].count("RabbitMQ's shape") == 1
    assert rows[-1].split("|")[-2].strip() == word


def test_a_column_of_nothing_is_left_out() -> None:
    shown = report.table(report.lines(ROWS, samples_of(p={"rabbitmq": [4], "arneb": [2]})))
    assert [each.strip() for each in shown.splitlines()[0].split("|")[1:-1]] == [
        "row", "unit", "RabbitMQ", "Arneb", "ratio",
    ]  # fmt: skip


def test_a_result_can_be_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    first = report.write(ROWS, samples_of(a={"rabbitmq": [10], "arneb": [20]}), quick=False)
    kept = Samples.of(json.loads(first.with_suffix(".json").read_text())["samples"])
    kept.take(samples_of(a={"rabbitmq": [10, 30], "arneb": [60, 60]}, b={"rabbitmq": [1]}))
    again = report.write(ROWS, kept, quick=False, into=first.with_suffix(".json"))
    record = json.loads(again.with_suffix(".json").read_text())
    assert again == first
    assert [each["row"] for each in record["lines"]] == ["a", "b"]
    assert record["lines"][0]["subject"] == 60
    assert "median of 1 to 3" in again.read_text()


def test_the_disk_is_asked_how_long_it_takes(tmp_path: Path) -> None:
    assert report.flush_us(tmp_path) > 0
    assert not list(tmp_path.iterdir())


def test_a_chart_has_a_bar_of_compiled_modules_where_they_were_measured() -> None:
    found = samples_of(
        a={"rabbitmq": [10], "arneb": [40], "compiled": [80]}, b={"rabbitmq": [1], "arneb": [2]}
    )
    drawn = chart([asdict(each) for each in report.lines(ROWS, found)], "t")
    assert "80 (8.0 x)" in drawn
    assert drawn.count('<rect class="compiled"') == 2  # one of them is the key's
    plain = chart([asdict(each) for each in report.lines(ROWS[1:2], found)], "t")
    assert "compiled" not in plain


def test_a_result_beside_another_broker_is_made_of_several_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    title = "median of {}"
    first = report.keep_rounds(
        "pulsar", title, {"a, msg/s": {"pulsar": [10.0], "arneb": [20.0]}}, None
    )
    for figure in (30.0, 60.0):
        found = {"a, msg/s": {"pulsar": [10.0], "arneb": [figure]}}
        assert report.keep_rounds("pulsar", title, found, first) == first
    assert "| a, msg/s | 10 | 30 | 3 |" in first.with_suffix(".md").read_text()
    assert "median of 3" in first.with_suffix(".md").read_text()
    rounds = json.loads(first.read_text())["found"]["a, msg/s"]["arneb"]
    assert rounds == [20.0, 30.0, 60.0]
