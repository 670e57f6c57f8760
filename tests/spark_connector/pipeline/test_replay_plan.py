"""The plan of a replay: every entry is in one piece, and what is written down is read again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.replay import Choice, Pace, Piece, Plan, Target, _cut
from pyspark_arneb.pipeline.session import JobFailed, in_one_line, spark_session

PLAN = Plan(
    "replay-1",
    {"topics": ["t"]},
    {"queue": "q"},
    [Piece("t", 1, 0, 9), Piece("t", 2, 0, 4)],
    15,
    1,
    10,
)


@given(
    first=st.integers(0, 1000),
    entries=st.integers(1, 5000),
    a_batch=st.integers(1, 50),
    at_once=st.integers(1, 3000),
)
def test_pieces_are_all_entries_once_and_in_order(
    first: int, entries: int, a_batch: int, at_once: int
) -> None:
    row = {
        "topic": "t", "ledger_id": 3, "first": first, "last": first + entries - 1,
        "messages": entries * a_batch,
    }  # fmt: skip
    pieces = list(_cut(row, at_once))
    assert [n for each in pieces for n in range(each.first, each.last + 1)] == list(
        range(first, first + entries)
    )
    assert all((each.last - each.first + 1) * a_batch < at_once + a_batch for each in pieces)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    assert Plan.load(file) is None
    PLAN.save(file)
    assert Plan.load(file) == PLAN
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"], "no draft is left"


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"format": 2}', '{"format": 1, "a": 1}'])
def test_what_is_no_plan_is_refused_by_the_options_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(JobFailed, match="--state") as caught:
        Plan.load(tmp_path / "state.json")
    assert "\n" not in str(caught.value)


def test_a_plan_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match=r"--state: cannot write .*No such file"):
        PLAN.save(tmp_path / "nowhere" / "state.json")


@given(
    per_s=st.floats(0.1, 1e6),
    sizes=st.lists(st.integers(0, 50_000), min_size=1, max_size=20),
    took=st.floats(0, 10),
)
def test_a_pace_is_never_faster_than_its_rate(per_s: float, sizes: list[int], took: float) -> None:
    now = [0.0]
    pace = Pace(per_s, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    sent = 0
    for size in sizes:
        pace.wait()
        assert sent <= now[0] * per_s + 1e-3
        now[0] += took
        pace.took(size)
        sent += size
    assert 1 <= pace.messages_a_piece <= 50_000


def test_without_a_rate_nobody_waits() -> None:
    pace = Pace(None, lambda: 0.0, lambda seconds: pytest.fail("waited"))
    pace.took(1_000_000)
    pace.wait()


def test_what_is_missing_is_named() -> None:
    with pytest.raises(JobFailed, match="--to-topic, --to-queue or --to-exchange"):
        Target({"vhost": "/"})
    with pytest.raises(JobFailed, match="--topic"):
        Choice([])
    with pytest.raises(JobFailed, match=r"--path.*--url"):
        Location()
    with pytest.raises(JobFailed, match="no directory /nonexistent"):
        Location(path="/nonexistent")
    with pytest.raises(JobFailed, match="--url: is needed"):
        Location(path="/").service_options  # noqa: B018
    with (
        pytest.raises(JobFailed, match=r"--master: expected .* got 'loco'"),
        spark_session("x", "loco"),
    ):
        pass


def test_java_and_python_stacks_become_one_line() -> None:
    text = """[STREAM] An error. SQLSTATE: 38000 Traceback (most recent call last):
  File "x.py", line 3, in f
pyspark_arneb.options.OptionError: option "topic": no topic x; did you mean "y"?

JVM stacktrace:
org.apache.spark.api.python.PythonException: oh
\tat org.apache.spark.Foo.bar(Foo.scala:3)"""
    assert in_one_line(RuntimeError(text)) == 'option "topic": no topic x; did you mean "y"?'
    assert in_one_line(RuntimeError("plain\n\tat org.X")) == "plain"
    assert in_one_line(RuntimeError("")) == "RuntimeError"
