"""A receiver's room: permits and windows, counted in messages."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.windows import Window, subscription_window
from arneb_core.dispatch.receiver import UNBOUNDED, Receiver


def test_a_consumer_without_limits_has_all_the_room_there_is() -> None:
    assert Receiver(ConsumerSpec("c", unlimited=True)).room == UNBOUNDED
    assert Receiver(ConsumerSpec("c")).room == 0


def test_a_socket_that_is_full_leaves_no_room() -> None:
    receiver = Receiver(ConsumerSpec("c", unlimited=True))
    receiver.writable = False
    assert receiver.room == 0


@given(
    st.integers(-3, 30),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=3),
    st.lists(st.integers(1, 6), max_size=5),
)
def test_room_is_the_least_of_permits_and_windows_and_what_is_given_is_counted(
    permits: int, limits: list[tuple[int, int]], runs: list[int]
) -> None:
    windows = tuple(Window(limit) for limit, _ in limits)
    for window, (_, in_flight) in zip(windows, limits, strict=True):
        window.in_flight = in_flight
    receiver = Receiver(ConsumerSpec("c", windows=windows))
    receiver.permits = permits
    total = 0
    for messages in [0, *runs]:
        receiver.given(messages)
        total += messages
        # A limit of 0 is none.
        left = [limit - held - total for limit, held in limits if limit]
        assert receiver.room == min([permits - total, *left])
    receiver.freed(total)
    assert [each.in_flight for each in windows] == [held for _, held in limits]
    assert receiver.permits == permits - total, "permits do not come back by themselves"


def test_a_consumer_that_acknowledges_nothing_waits_while_others_fill_a_window() -> None:
    window = Window(2)
    receiver = Receiver(ConsumerSpec("c", unlimited=True, windows=(window,), acks=False))
    receiver.given(10)
    assert (window.in_flight, receiver.room) == (0, UNBOUNDED)
    window.in_flight = 2
    assert receiver.room == 0


class Consumer:
    def wake(self) -> None:
        raise AssertionError("only the subscription wakes")


@given(st.integers(1, 9), st.lists(st.integers(-3, 3), max_size=12))
def test_a_window_that_several_share_bounds_what_they_get_together(
    most: int, steps: list[int]
) -> None:
    unacked = subscription_window(most)
    one, two = (Receiver(ConsumerSpec(name, unlimited=True), (unacked,)) for name in "ab")
    assert one.common_room == UNBOUNDED, "a window that only one consumer has is not a common one"
    unacked.sharers = {Consumer(): None, Consumer(): None}
    in_flight, is_shut = 0, False
    for step in steps:
        step = max(step, -in_flight)
        in_flight += step
        if step > 0:
            one.given(step)
        else:
            two.freed(-step)
        is_shut = in_flight >= most or (is_shut and in_flight > unacked.resume)
        assert one.common_room == two.common_room == unacked.limit - in_flight
        assert (one.room > 0) is not is_shut
