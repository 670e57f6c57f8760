"""Regular expressions over topic names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.patterns import PATTERN_CHARACTERS_MAX, InvalidPattern, TopicPattern

PREFIX = "persistent://public/default/"


@pytest.mark.parametrize(
    ("pattern", "topic", "means"),
    [
        ("public/default/a.*", "abc", True),
        (PREFIX + "a.*", "abc", True),
        ("public/default/a", "abc", False),
        ("a.*", "abc", False),
        ("public/default/a", "a-partition-3", True),
        ("public/default/a-partition-3", "a-partition-3", False),
        ("public/default/a|b", "b", False),
        (r"public/default/\d+", "12", True),
    ],
)
def test_the_whole_name_is_matched(pattern: str, topic: str, means: bool) -> None:
    assert TopicPattern(pattern).matches(PREFIX + topic) is means


def test_a_choice_keeps_its_order() -> None:
    topics = [PREFIX + name for name in ("b1", "a1", "b2")]
    assert TopicPattern(".*/b.").choose(topics) == [topics[0], topics[2]]


@pytest.mark.parametrize("pattern", ["(", "*", r"(a)\1", "x" * (PATTERN_CHARACTERS_MAX + 1)])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(pattern)


def test_no_expression_keeps_us_busy() -> None:
    pattern = TopicPattern("public/default/(a*)*b")
    assert not pattern.matches(PREFIX + "a" * 500)


@given(pattern=st.text(max_size=20), topic=st.text(max_size=20))
def test_anything_matches_or_is_refused(pattern: str, topic: str) -> None:
    try:
        found = TopicPattern(pattern)
    except InvalidPattern:
        return
    found.matches(topic)


@given(name=st.text("ab.", max_size=8), literal=st.text("ab.", max_size=8))
def test_a_literal_means_itself(name: str, literal: str) -> None:
    assert TopicPattern(re.escape(literal)).matches(name) is (name == literal)
