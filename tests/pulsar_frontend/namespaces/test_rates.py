"""Rates: in the long run no more comes than they say, and nothing waits that need not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.namespaces.rates import RATE_MAX, Budget, DispatchRate, PublishRate, Throttle

RATES = st.one_of(st.just(-1), st.integers(1, 1000))


@given(
    rate=st.builds(PublishRate, RATES, RATES),
    runs=st.lists(
        st.tuples(st.integers(1, 50), st.integers(1, 5000), st.floats(0, 3)), max_size=30
    ),
)
def test_no_more_comes_than_the_rate_and_one_second(
    rate: PublishRate, runs: list[tuple[int, int, float]]
) -> None:
    throttle, now = Throttle(rate, 1000.0), 1000.0
    came = [0, 0]
    for messages, size, idle_s in runs:
        for index, (bound, one) in enumerate(((rate.messages, messages), (rate.bytes, size))):
            # What is taken at once may be more than is allowed; it is made up for before the next.
            assert bound <= 0 or came[index] <= bound * (now - 1000.0 + 1.0) + 1e-3
            came[index] += one
        until = throttle.spend(messages, size, now)
        assert until >= now
        if not rate.limits:
            assert until == now
        now = until + idle_s


def test_a_second_is_free_and_the_rest_waits() -> None:
    throttle = Throttle(PublishRate(messages=10), 50.0)
    assert throttle.spend(10, 1, 50.0) == 50.0
    assert throttle.spend(5, 1, 50.0) == 50.5
    assert throttle.spend(1, 1, 60.0) == 60.0
    assert throttle.spend(10, 1, 60.0) == 60.1


@pytest.mark.parametrize(
    ("document", "rate"),
    [
        ({}, PublishRate()),
        ({"publishThrottlingRateInMsg": 5}, PublishRate(5)),
        ({"publishThrottlingRateInByte": 1 << 60}, PublishRate(-1, RATE_MAX)),
        ({"publishThrottlingRateInMsg": "5"}, PublishRate(5)),
    ],
)
def test_documents_are_read_and_written(document: object, rate: PublishRate) -> None:
    found = PublishRate.parse(document)
    assert found == rate
    assert PublishRate.parse(found.document) == found


@pytest.mark.parametrize(
    "document",
    [None, [], 5, {"publishThrottlingRateInMsg": "x"}, {"publishThrottlingRateInByte": 1 << 70}],
)
def test_what_is_no_rate_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        PublishRate.parse(document)


@given(
    messages=RATES,
    size=RATES,
    period_s=st.integers(1, 10),
    looks=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2000)), max_size=40),
)
def test_no_more_goes_out_than_the_rate_and_one_period(
    messages: int, size: int, period_s: int, looks: list[tuple[float, int]]
) -> None:
    rate = DispatchRate(messages, size, False, period_s)
    budget, now, gone = Budget(rate, 1000.0), 1000.0, 0
    for idle_s, wanted in looks:
        now += idle_s
        budget.earn(now, (0.0, 0.0))
        given = min(wanted, budget.messages(10))
        budget.spend(given, given * 10)
        gone += given
        periods = (now - 1000.0) / period_s + 1.0
        if messages > 0:
            assert gone <= messages * periods + 1e-6
        if size > 0:
            assert gone * 10 <= size * periods + 10 + 1e-6, (
                "more passed than the rate and one large message allow"
            )


def test_a_batch_that_was_too_much_is_made_up_for() -> None:
    budget = Budget(DispatchRate(10), 0.0)
    budget.spend(40, 0)
    for now, room in ((1.0, 0), (3.0, 0), (3.5, 5), (60.0, 10)):
        budget.earn(now, (0.0, 0.0))
        assert budget.messages(100) == room


def test_a_relative_rate_is_that_much_more_than_comes() -> None:
    budget = Budget(DispatchRate(10, -1, True), 0.0)
    budget.spend(10, 0)
    budget.earn(1.0, (5.0, 0.0))
    assert budget.messages(100) == 15
