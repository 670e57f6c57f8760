"""The plan of a replay: every entry is in one piece, and what is written down is read again."""

from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.replay import Choice, Pace, Target
from pyspark_arneb.pipeline.replay_plan import Piece, Plan, Stretch
from pyspark_arneb.pipeline.session import JobFailed, in_one_line, spark_session

STRETCHES = [Stretch("t", 1, 0, 9, 10), Stretch("t", 2, 0, 4, 5, True)]


def plan() -> Plan:
    """A plan of which the first piece is done."""
    made = Plan.begin("replay-1", {"topics": ["t"]}, {"queue": "q"}, STRETCHES, 4)
    made.move_on(3, 4)
    return made


@st.composite
def stretches(draw: st.DrawFn) -> Stretch:
    first, entries = draw(st.integers(0, 1000)), draw(st.integers(1, 60))
    messages = entries * draw(st.integers(1, 50)) - draw(st.integers(0, entries - 1))
    return Stretch("t", draw(st.integers(1, 9)), first, first + entries - 1, messages)


@given(st.lists(stretches(), max_size=3), st.integers(1, 3000), st.data())
def test_pieces_are_all_entries_once_and_in_order_wherever_it_is_broken_off(
    found: list[Stretch], at_once: int, data: st.DataObject
) -> None:
    """Also with another rate from then on, and pieces that are too large for the broker."""
    made = Plan.begin("r", {}, {}, found, at_once)
    came: list[tuple[int, int]] = []
    numbers: list[int] = []
    while made.piece is not None:
        fate = data.draw(st.sampled_from(["done", "done", "killed", "too large"]))
        if fate == "killed":
            made = Plan(**{**asdict(made), "stretches": found, "piece": made.piece})
        elif fate == "too large" and made.piece.first < made.piece.last:
            made.halve()
        else:
            numbers.append(made.number)
            came += [(made.at, n) for n in range(made.piece.first, made.piece.last + 1)]
            at_once = data.draw(st.sampled_from([at_once, 500]))
            made.move_on(1, at_once)
    assert came == [
        (at, n) for at, each in enumerate(found) for n in range(each.first, each.last + 1)
    ]
    assert numbers == list(range(len(numbers))) and made.written == len(numbers)
    assert made.read == made.messages == sum(each.messages for each in found)


@given(stretches(), st.integers(1, 3000))
def test_a_piece_has_about_as_many_messages_as_are_wanted(found: Stretch, at_once: int) -> None:
    piece = Plan.begin("r", {}, {}, [found], at_once).piece
    assert piece is not None
    entries = piece.last - piece.first + 1
    assert entries == 1 or found.messages * entries <= at_once * found.entries


def test_one_entry_that_is_too_large_is_named() -> None:
    made = Plan.begin("r", {}, {}, [Stretch("t", 3, 7, 7, 1)], 10)
    with pytest.raises(JobFailed, match="t 3:7 to 3:7: a single entry is larger than"):
        made.halve()


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    assert Plan.load(file) is None
    plan().create(file)
    assert Plan.load(file) == plan()
    moved = plan()
    while moved.piece is not None:
        moved.move_on(1, 4)
        moved.save(file)
        assert Plan.load(file) == moved
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"], (
        "no temporary file may be left"
    )


def test_of_two_that_begin_at_once_one_plan_counts(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    first, second = plan(), plan()
    second.name = "replay-2"
    assert first.create(file) is first
    assert second.create(file) == first
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_a_piece_outside_of_its_stretch_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    made = plan()
    made.piece = Piece("t", 1, 8, 12)
    made.save(file)
    with pytest.raises(JobFailed, match="t 1:8 to 1:12 is not in its stretch"):
        Plan.load(file)


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"format": 1}', '{"format": 2, "a": 1}'])
def test_what_is_no_plan_is_refused_by_the_options_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(JobFailed, match="--state") as caught:
        Plan.load(tmp_path / "state.json")
    assert "\n" not in str(caught.value)


def test_a_plan_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match=r"--state: cannot write .*No such file"):
        plan().save(tmp_path / "nowhere" / "state.json")


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


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(None, lambda: 0.0, lambda seconds: pytest.fail("waited"))
    pace.took(1_000_000)
    pace.wait()


def test_what_is_missing_is_named() -> None:
    with pytest.raises(JobFailed, match="--to-topic, --to-queue and --to-exchange"):
        Target({"vhost": "/"})
    with pytest.raises(JobFailed, match="TOPIC"):
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
