"""Numbers and truths out of JSON: what Jackson takes is taken, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.encoding.json_text import parse_json
from arneb_pulsar.namespaces.coercion import HIGHEST, LOWEST, real_number, truth, whole_number


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (5, 5),
        ("10240", 10240),
        (" -1 ", -1),
        ("+7", 7),
        (2.0, 2),
        (2.7, 2),
        (-2.7, -2),
        (HIGHEST, HIGHEST),
        (HIGHEST + 1, None),
        (str(HIGHEST + 1), None),
        (1e300, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        ("", None),
        ("2.0", None),
        ("1_000", None),
        ("\u0663", None),
        (None, None),
        ([], None),
        ({}, None),
    ],
)
def test_numbers(given: Any, number: int | None) -> None:
    assert whole_number(given) == number


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (5, 5.0),
        (0.5, 0.5),
        (" -1.5 ", -1.5),
        ("7.", 7.0),
        (".5e-1", 0.05),
        ("nan", None),
        ("NaN", None),
        ("-Infinity", None),
        ("1e999", None),
        ("1" + "0" * 400, None),
        (float("inf"), None),
        ("1_0", None),
        ("\u0663", None),
        ("", None),
        (True, None),
        (None, None),
        ([1], None),
    ],
)
def test_real_numbers(given: Any, number: float | None) -> None:
    assert real_number(given) == number


@given(st.floats() | st.integers(-(10**99), 10**99) | st.text())
def test_a_real_number_can_be_written_as_json_and_read_again(given: float | str) -> None:
    if (number := real_number(given)) is not None:
        assert parse_json(json.dumps(number)) == number


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("FALSE", False),
        (" True ", True),
        (0, False),
        (7, True),
        ("yes", None),
        ("tRuE", None),
        (1.5, None),
        (None, None),
        ([True], None),
    ],
)
def test_truths(given: Any, found: bool | None) -> None:
    assert truth(given) is found


@given(st.integers(LOWEST, HIGHEST))
def test_a_number_is_the_same_as_text(number: int) -> None:
    assert whole_number(number) == whole_number(str(number)) == number
