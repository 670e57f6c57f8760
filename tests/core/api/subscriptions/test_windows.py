"""Windows: a limit of 0 is none, and what was full stays shut until enough is answered."""

import pytest

from arneb_core.api.subscriptions.windows import Window, consumer_window, subscription_window


def test_a_window_says_how_full_it_is() -> None:
    window = Window(3)
    window.in_flight = 2
    assert repr(window) == "<Window 2/3>"
    assert repr(Window()) == "<Window 0/no limit>"


@pytest.mark.parametrize(
    ("make", "most", "resumes_at"),
    [
        (consumer_window, 10, 5),
        (consumer_window, 1, 0),
        (consumer_window, 2, 1),
        (subscription_window, 10, 4),
        (subscription_window, 1, 0),
        (subscription_window, 2, 0),
        (subscription_window, 3, 0),
    ],
)
def test_where_it_opens_again(make, most: int, resumes_at: int) -> None:
    window = make(most)
    for in_flight in range(most + 2):
        window.in_flight = in_flight
        window.counted()
        assert (window.limit <= in_flight) is window.is_shut is (in_flight >= most)
    for in_flight in range(most, -1, -1):
        window.in_flight = in_flight
        window.counted()
        assert (window.limit <= in_flight) is window.is_shut is (in_flight > resumes_at)
    assert (window.limit, window.is_shut) == (most, False)
