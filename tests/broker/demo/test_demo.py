"""The demo: it reports truthfully what it saw, and what it sees is right."""

import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.demo.__main__ import HALF, ORDERS, CountOff, check_turnover, judge
from arneb.demo.orders import Order, Turnover

ALL = [Order(number) for number in range(ORDERS)]


@given(st.integers(0, 1 << 40))
def test_an_order_survives_its_journey(number: int) -> None:
    assert Order.from_json(Order(number).to_json()) == Order(number)


def test_an_altered_order_is_noticed() -> None:
    with pytest.raises(ValueError, match="expected .* got"):
        Order.from_json(Order(1).to_json().replace(b"FR", b"DE"))


def test_a_whole_run_is_accepted() -> None:
    judge(ALL, ALL[:HALF], ALL[HALF:])
    turnover = Turnover.of(ALL)
    found = {country: (n, turnover.cents[country]) for country, n in turnover.orders.items()}
    check_turnover(turnover, found, 1.0)


@pytest.mark.parametrize(
    ("first", "rest", "message"),
    [
        (ALL[:HALF], ALL[HALF:-1], "consumed by Pulsar: expected 5,000, got 4,999"),
        (ALL[:HALF], [*ALL[HALF:-1], ALL[0]], "consumed twice: expected 0, got 1"),
        (ALL[:HALF], [*ALL[HALF:-1], Order(ORDERS)], "never consumed: expected 0, got 1"),
        (ALL[:HALF], [*ALL[HALF:-2], ALL[-1], ALL[-2]], "out of place: expected 0, got 2"),
    ],
)
def test_a_wrong_count_is_named(first: list[Order], rest: list[Order], message: str) -> None:
    with pytest.raises(CountOff, match=message):
        judge(ALL, first, rest)


def test_a_wrong_sum_is_named() -> None:
    turnover = Turnover.of(ALL)
    found = {country: (n, turnover.cents[country]) for country, n in turnover.orders.items()}
    found["JP"] = (found["JP"][0], found["JP"][1] + 1)
    with pytest.raises(CountOff, match="cents from JP"):
        check_turnover(turnover, found, 1.0)


@pytest.mark.skipif(
    find_spec("pyspark") is None or shutil.which("java") is None, reason="needs pyspark and Java"
)
def test_the_demo_succeeds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arneb.demo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing was lost." in done.stdout
