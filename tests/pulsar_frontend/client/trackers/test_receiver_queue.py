"""The receiver queue against a broker that counts permits."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.trackers.receiver_queue import ReceiverQueue


class QueueMachine(RuleBasedStateMachine):
    """A broker that sends a batch as long as it has a permit, as real ones do."""

    @initialize(size=st.integers(0, 9), auto_scaled=st.booleans())
    def begin(self, size: int, auto_scaled: bool) -> None:
        self.size = size
        self.queue = ReceiverQueue[int](size, auto_scaled=auto_scaled and size > 0)
        self.held: list[int] = []
        self.permits = self.queue.connected()
        self.sent = 0
        self.largest = 1
        self.is_waiting = False
        self.is_paused = False

    @rule(count=st.integers(1, 4), filtered=st.integers(0, 4))
    @precondition(lambda self: self.permits > 0)
    def deliver(self, count: int, filtered: int) -> None:
        filtered = min(filtered, count)
        self.permits -= count
        self.largest = max(self.largest, count)
        messages = list(range(self.sent, self.sent + count))[filtered:]
        self.sent += count
        if filtered:
            self.queue.skip(filtered)
        if messages:
            self.queue.push(messages)
            self.held += messages
            self.is_waiting = False
        self.flow()

    @rule(count_max=st.integers(1, 5))
    def receive(self, count_max: int) -> None:
        if self.held:
            if count_max == 1:
                assert self.queue.take() == self.held.pop(0)
            else:
                taken, self.held = self.held[:count_max], self.held[count_max:]
                assert [self.queue.take() for _ in taken] == taken
            self.flow()
        else:
            self.is_waiting = True
            self.permits += self.queue.waiting()

    @rule()
    def give_up_waiting(self) -> None:
        self.is_waiting = False
        self.queue.stopped_waiting()

    @rule()
    def pause(self) -> None:
        self.is_paused = True
        self.queue.pause()

    @rule()
    def resume(self) -> None:
        self.is_paused = False
        self.queue.resume()
        self.flow()

    @rule()
    def redeliver_all(self) -> None:
        assert self.queue.clear() == self.held
        self.held.clear()
        self.flow()

    @rule()
    def reconnect(self) -> None:
        self.queue.clear()
        self.held.clear()
        self.permits = self.queue.connected()
        self.largest = 1

    @rule()
    def run_short_of_memory(self) -> None:
        self.queue.shrink()
        self.flow()

    def flow(self) -> None:
        is_asked_for_nothing = self.queue.earned < self.queue.half
        given = self.queue.take_flow()
        assert not (given and is_asked_for_nothing)
        assert given >= 0
        assert not (given and self.is_paused)
        if given and self.size:
            assert given >= self.queue.size // 2
        self.permits += given

    @invariant()
    def there_is_room_for_all_that_may_come(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.queue) == len(self.held)
            room = max(self.size, 1)
            # A queue that shrank has given its permits before.
            assert self.permits + len(self.held) <= room + self.largest - 1

    @invariant()
    def a_broker_is_never_left_without_permits_while_somebody_waits(self) -> None:
        if hasattr(self, "queue") and self.is_waiting and not self.held and not self.is_paused:
            assert self.permits > 0

    @invariant()
    def a_queue_of_size_0_asks_for_nothing_in_advance(self) -> None:
        if hasattr(self, "queue") and not self.size:
            assert self.permits <= 1


TestQueueMachine = QueueMachine.TestCase


def test_permits_are_given_back_half_a_queue_at_a_time() -> None:
    queue = ReceiverQueue[int](10)
    assert queue.connected() == 10
    queue.push(range(10))
    given = []
    for _ in range(10):
        queue.take()
        given.append(queue.take_flow())
    assert given == [0, 0, 0, 0, 5, 0, 0, 0, 0, 5]


def test_the_default_is_a_thousand_messages() -> None:
    assert ReceiverQueue[int]().connected() == 1_000


def test_messages_not_handed_out_cost_no_permits() -> None:
    queue = ReceiverQueue[int](4)
    queue.connected()
    queue.skip(1)
    assert queue.take_flow() == 0
    queue.skip(1)
    assert queue.take_flow() == 2


def test_a_queue_of_size_0_asks_for_one_message_a_receive() -> None:
    queue = ReceiverQueue[int](0)
    assert queue.connected() == 0
    assert queue.waiting() == 1
    assert queue.waiting() == 0
    queue.push([1])
    assert queue.take_flow() == 0
    assert queue.take() == 1
    assert queue.take_flow() == 0
    assert queue.waiting() == 1


def test_a_queue_of_size_0_that_waits_asks_a_new_broker_again() -> None:
    queue = ReceiverQueue[int](0)
    queue.connected()
    queue.waiting()
    assert queue.connected() == 1
    queue.push([1])
    queue.clear()
    assert queue.connected() == 0


def test_a_queue_of_size_0_gets_over_a_batch() -> None:
    queue = ReceiverQueue[int](0)
    queue.connected()
    assert queue.waiting() == 1
    queue.push([1, 2, 3])
    assert [queue.take(), queue.take(), queue.take()] == [1, 2, 3]
    # The broker counts 1 - 3 permits; with three more it may send once.
    assert queue.waiting() == 3


def test_a_queue_of_size_0_asks_again_for_what_was_filtered() -> None:
    queue = ReceiverQueue[int](0)
    queue.connected()
    queue.waiting()
    queue.skip(1)
    assert queue.take_flow() == 1


def test_a_paused_queue_gives_what_it_has_earned_when_it_goes_on() -> None:
    queue = ReceiverQueue[int](4)
    queue.pause()
    assert queue.connected() == 0
    queue.resume()
    assert queue.take_flow() == 4


def test_an_automatic_queue_doubles_when_it_was_full_and_is_empty() -> None:
    queue = ReceiverQueue[int](6, auto_scaled=True)
    sizes = []
    permits = queue.connected()
    for _ in range(6):
        sizes.append(queue.size)
        queue.push(range(permits))
        assert [queue.take() for _ in range(permits)] == list(range(permits))
        permits = queue.take_flow()
        permits += queue.waiting()
    assert sizes == [1, 2, 4, 6, 6, 6]


def test_an_automatic_queue_stays_small_while_the_application_is_slow() -> None:
    queue = ReceiverQueue[int](6, auto_scaled=True)
    permits = queue.connected()
    for _ in range(6):
        queue.push(range(permits))
        queue.take()
        permits = queue.take_flow()
    assert queue.size == 1


@pytest.mark.parametrize(("size", "auto_scaled"), [(-1, False), (0, True)])
def test_sizes_that_mean_nothing_are_refused(size: int, auto_scaled: bool) -> None:
    with pytest.raises(ConfigurationError, match="expected the size"):
        ReceiverQueue[int](size, auto_scaled=auto_scaled)
