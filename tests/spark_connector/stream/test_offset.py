"""Offsets in checkpoints: read back as written, equal exactly when there is nothing new."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.stream.offset import OffsetError, StreamOffset, TopicOffset, begins

POSITIONS = st.builds(position_at, st.integers(0, 1 << 31), st.integers(0, (1 << 32) - 2))
COUNTS = st.integers(0, 1 << 40)
TOPIC_OFFSETS = st.builds(TopicOffset, st.integers(0, 1 << 32), POSITIONS, COUNTS) | st.builds(
    TopicOffset, st.integers(0, 1 << 32), POSITIONS, COUNTS, POSITIONS, COUNTS
)
NAMES = st.sampled_from([full_name(name) for name in ("a", "b", "ü/x/y", "p-partition-0")])
OFFSETS = st.builds(
    StreamOffset,
    st.dictionaries(NAMES, TOPIC_OFFSETS, max_size=4),
    st.none() | st.text(min_size=1, max_size=9),
    st.booleans(),
)
ONE = StreamOffset({full_name("a"): TopicOffset(1, position_at(1, 5), 5)}, "spark-1")


@given(OFFSETS)
def test_an_offset_is_read_back_from_spark_s_checkpoint_as_it_was(offset: StreamOffset) -> None:
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(st.lists(st.tuples(NAMES, TOPIC_OFFSETS), unique_by=lambda pair: pair[0]), st.randoms())
def test_equal_offsets_are_equal_text(
    topics: list[tuple[str, TopicOffset]], random: "st.DrawFn"
) -> None:
    """Spark compares the JSON: the order in which topics were found must not show."""
    text = json.dumps(StreamOffset(dict(topics)).to_json())
    shuffled = list(topics)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(StreamOffset(dict(shuffled)).to_json()) == text


@given(OFFSETS)
def test_what_spark_may_hold_is_numbers_texts_and_booleans(offset: StreamOffset) -> None:
    def allowed(value: object) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and allowed(each) for key, each in value.items())
        return type(value) in (int, str, bool)

    assert allowed(offset.to_json())


@given(OFFSETS)
def test_an_offset_with_the_same_places_is_no_news(offset: StreamOffset) -> None:
    """Else Spark would run a micro-batch of nothing."""
    same = {
        name: TopicOffset(each.topic_id, each.next, each.messages + 1, Position(3))
        for name, each in offset.topics.items()
    }
    assert offset.moved(same) is offset


@given(OFFSETS, POSITIONS)
def test_an_offset_that_moved_is_no_longer_initial_and_keeps_its_cursor(
    offset: StreamOffset, place: Position
) -> None:
    moved = offset.moved({**offset.topics, "new": TopicOffset(9, place)})
    assert not moved.initial
    assert moved.cursor == offset.cursor


@pytest.mark.parametrize(
    ("given_json", "problem"),
    [
        ([], "expected an offset as a JSON object"),
        ({}, "expected format 1, got None"),
        ({"arneb": 2, "topics": {}}, "expected format 1, got 2"),
        ({"arneb": 1}, "expected its topics as a JSON object, got None"),
        ({"arneb": 1, "cursor": 7, "topics": {}}, "expected a cursor's name, got 7"),
        ({"arneb": 1, "topics": {"t": 7}}, "expected a topic as a JSON object, got 7"),
        ({"arneb": 1, "topics": {"t": {"id": 1}}}, 'expected "ledger:entry", got None'),
        (
            {"arneb": 1, "topics": {"t": {"id": True, "next": "1:2", "messages": 0}}},
            "expected a number in 'id', got True",
        ),
        (
            {"arneb": 1, "topics": {"t": {"id": 1, "next": "1:-1", "messages": 0}}},
            "expected \"ledger:entry\", got '1:-1'",
        ),
        (
            {"arneb": 1, "topics": {"t": {"id": 1, "next": "1:1", "messages": 0, "from": 3}}},
            'expected "ledger:entry", got 3',
        ),
    ],
)
def test_an_offset_of_another_source_is_refused_in_one_line(
    given_json: object, problem: str
) -> None:
    with pytest.raises(OffsetError) as caught:
        StreamOffset.from_json(given_json)
    assert problem in str(caught.value)
    assert "new checkpointLocation" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_micro_batch_begins_where_its_start_ends() -> None:
    end = ONE.moved({full_name("a"): TopicOffset(1, position_at(1, 9), 9)})
    assert begins(ONE, end) == ONE.topics


def test_a_micro_batch_begins_where_its_end_says_so() -> None:
    """A restart before the first batch was done asks for the initial offset again, and would get
    another one; the batch that is run again is the one that was planned."""
    first_end = StreamOffset(
        {full_name("a"): TopicOffset(1, position_at(1, 9), 9, position_at(1, 2), 2)}, "spark-1"
    )
    asked_anew = StreamOffset(
        {full_name("a"): TopicOffset(1, position_at(1, 9), 9)}, "spark-2", initial=True
    )
    assert begins(asked_anew, first_end) == {full_name("a"): TopicOffset(1, position_at(1, 2), 2)}


@pytest.mark.parametrize(
    "start", [StreamOffset(), StreamOffset({full_name("a"): TopicOffset(8, Position(0))})]
)
def test_an_end_that_does_not_fit_its_start_is_refused(start: StreamOffset) -> None:
    with pytest.raises(OffsetError, match="in the start of its micro-batch, too"):
        begins(start, ONE)
