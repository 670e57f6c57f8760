"""Patterns are searched in names, and no pattern or name takes long."""

import time

import pytest

from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import CHARACTERS_MAX, check_pattern, compiled


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("q", "a queue", True),
        ("^q", "a queue", False),
        ("^app\\.", "app.orders", True),
        ("^app\\.", "my.app.orders", False),
        ("s$", "orders", True),
        ("", "orders", False),
        ("", "", True),
        (".*", "", True),
        (".*", "any\nthing", True),
        ("^(amq\\.gen.*|amq\\.default)$", "amq.default", True),
        ("^(amq\\.gen.*|amq\\.default)$", "amq.topic", False),
        ("^(?!secret\\.)", "secret.q", False),
        ("^(?!secret\\.)", "open.q", True),
        ("^(.+)-\\1$", "a-a", True),
        ("^(.+)-\\1$", "a-b", False),
        ("ü", "früh", True),
    ],
)
def test_a_pattern_is_searched_in_a_name(pattern: str, name: str, found: bool) -> None:
    assert compiled(pattern)(name) is found


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?<x", "a{5,2}", "a" * (CHARACTERS_MAX + 1)])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidAccess):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!b)(a|a)*$", "^(a+)+\\1b$"])
def test_a_name_made_to_keep_a_pattern_busy_is_not_found_in_a_moment(pattern: str) -> None:
    began = time.process_time()
    assert compiled(pattern)("a" * 254 + "!") is False
    assert time.process_time() - began < 1


def test_octets_that_are_no_text_match_what_means_everything_and_nothing_else() -> None:
    name = b"\xff".decode("utf-8", "surrogateescape")
    assert compiled(".*")(name)
    assert not compiled("^[^a]$")(name)
