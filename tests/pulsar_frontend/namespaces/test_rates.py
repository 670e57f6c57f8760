"""Rates: in the long run no more comes than they say, and nothing waits that need not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.namespaces.rates import RATE_MAX, PublishRate, Throttle

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
