"""The consumer's machine against a model of its broker: whatever happens, the application gets each
message that it has not acknowledged, in order, and its broker never has permits for more than there
is room."""

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.pulsar_frontend.client.consumer.machines import (
    body_of,
    chunks_of,
    command_of,
    machine_of,
)

from arneb_pulsar.client import EARLIEST, DeadLetterPolicy, Message, SubscriptionType
from arneb_pulsar.client.consumer.acknowledging import AckRequest
from arneb_pulsar.client.consumer.machine import ConsumerMachine
from arneb_pulsar.wire.ack_sets import mask_of
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandAck,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
)

LATER_S = 100.0
SIZES = (1, 3, 1, 2, 5, 1, 1, 4, 1, 2)
"""How many messages the entries of the topic have."""


class ConsumerProgram(RuleBasedStateMachine):
    """An application, a machine, and a broker whose messages take their time to arrive."""

    @initialize(
        kind=st.sampled_from([SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED]),
        size=st.integers(1, 5),
        indexes=st.booleans(),
        timeout_s=st.sampled_from([0.0, 5.0]),
    )
    def begin(self, kind: SubscriptionType, size: int, indexes: bool, timeout_s: float) -> None:
        self.kind, self.size, self.indexes = kind, size, indexes
        self.machine: ConsumerMachine[bytes] = machine_of(
            kind,
            size,
            batch_index_acks=indexes,
            ack_timeout_s=timeout_s,
            negative_ack_delay_s=2.0,
        )
        self.now = 0.0
        self.bodies = [
            body_of([b"%d %d" % (entry, index) for index in range(count)])
            for entry, count in enumerate(SIZES)
        ]
        # The broker.
        self.left = {entry: (1 << count) - 1 for entry, count in enumerate(SIZES)}
        self.flying: set[int] = set()
        self.permits = 0
        self.epoch: int | None = None
        self.wire: deque[tuple[int, int | None, int]] = deque()
        # The application.
        self.hand: dict[tuple[int, int], Message[bytes]] = {}
        self.again: set[tuple[int, int]] = set()
        """What it has in hand and the broker sends again: that may come before the broker hears
        of the acknowledgement, and then waits in the queue, as in the official clients."""
        self.acknowledged: set[tuple[int, int]] = set()
        self.given: list[tuple[int, int]] = []
        self.attach()

    # The broker

    @precondition(lambda self: not self.machine.attached)
    @rule()
    def attach(self) -> None:
        self.permits, self.epoch = 0, self.machine.epoch
        self.send_all_again()
        self.flying.clear()
        self.wire.clear()
        self.machine.attach(self.now)
        self.read()

    @precondition(lambda self: self.machine.attached)
    @rule()
    def lose(self) -> None:
        self.machine.detach()
        self.wire.clear()
        self.given.clear()
        assert not self.machine.acks.output

    @precondition(lambda self: self.machine.attached)
    @rule(count=st.integers(1, 4))
    def deliver(self, count: int) -> None:
        """As many entries as there are permits for, the last of which may cost more."""
        for entry in sorted(each for each in self.left if each not in self.flying):
            if self.permits <= 0 or not count:
                return
            count -= 1
            left = self.left[entry] if self.indexes else (1 << SIZES[entry]) - 1
            self.permits -= left.bit_count()
            self.flying.add(entry)
            self.wire.append((entry, self.epoch, left))

    @precondition(lambda self: self.wire)
    @rule(count=st.integers(1, 4))
    def arrive(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            entry, epoch, left = self.wire.popleft()
            command = command_of(entry, epoch if self.kind is SubscriptionType.EXCLUSIVE else None)
            if SIZES[entry] > 1 and left != (1 << SIZES[entry]) - 1:
                command.ack_set.append(left)
            self.machine.on_message(command, self.bodies[entry], self.now)
            self.read()

    def read(self) -> None:
        """What the machine wants sent is read at once."""
        assert self.machine.attached or not self.machine.acks.output
        output, self.machine.acks.output = self.machine.acks.output, []
        for each in output:
            command = each.command if isinstance(each, AckRequest) else each
            match command:
                case CommandFlow():
                    self.permits += command.messagePermits
                case CommandAck():
                    self.take_ack(command)
                case CommandRedeliverUnacknowledgedMessages():
                    self.redeliver(command)
                case _:
                    raise AssertionError(command)

    def take_ack(self, command: CommandAck) -> None:
        for data in command.message_id:
            left = mask_of(data.ack_set)
            entries = [data.entryId]
            if command.ack_type == CommandAck.Cumulative:
                last = data.entryId if data.entryId < 1 << 63 else -1
                entries = [each for each in self.left if each < last or (each == last)]
            for entry in entries:
                if entry == data.entryId and (rest := self.left.get(entry, 0) & left):
                    self.left[entry] = rest
                else:
                    self.left.pop(entry, None)
                    self.flying.discard(entry)

    def redeliver(self, command: CommandRedeliverUnacknowledgedMessages) -> None:
        if command.message_ids:
            assert self.kind.is_shared
            entries = {each.entryId for each in command.message_ids}
            self.flying -= entries
            self.again |= {place for place in self.hand if place[0] in entries}
            return
        self.flying.clear()
        self.send_all_again()
        if command.HasField("consumer_epoch"):
            self.epoch = command.consumer_epoch
        self.given.clear()

    def send_all_again(self) -> None:
        """All that the broker has heard nothing of, whatever the application says meanwhile."""
        self.again = set(self.hand)
        self.acknowledged = {
            (entry, index)
            for entry, index in self.acknowledged
            if not self.left.get(entry, 0) >> index & 1
        }

    # The application

    @rule(count=st.integers(1, 4))
    def receive(self, count: int) -> None:
        for _ in range(count):
            message = self.machine.take(self.now)
            if message is None:
                self.machine.wait()
                self.machine.stop_waiting()
                self.read()
                return
            self.read()
            entry, index = message.entry.id[1], max(message.batch_index, 0)
            assert message.data == b"%d %d" % (entry, index)
            # A batch that comes again whole has to be acknowledged whole again.
            if self.indexes or SIZES[entry] == 1:
                assert (entry, index) not in self.acknowledged
            if self.kind is SubscriptionType.EXCLUSIVE:
                assert not self.given or self.given[-1] < (entry, index)
                self.given.append((entry, index))
            self.hand[entry, index] = message
            self.again.discard((entry, index))

    @precondition(lambda self: self.hand)
    @rule(which=st.integers(0, 100))
    def acknowledge(self, which: int) -> None:
        place = sorted(self.hand)[which % len(self.hand)]
        message = self.hand.pop(place)
        entry = message.entry
        if place not in self.again:
            self.acknowledged.add(place)
        self.machine.acks.acknowledge(entry.id, message.batch_index, entry.batch_size, self.now)
        self.read()

    @precondition(lambda self: self.hand and self.kind is SubscriptionType.EXCLUSIVE)
    @rule(which=st.integers(0, 100))
    def acknowledge_cumulatively(self, which: int) -> None:
        place = sorted(self.hand)[which % len(self.hand)]
        entry = self.hand[place].entry
        self.machine.acks.acknowledge_cumulative(
            entry.id, self.hand[place].batch_index, entry.batch_size, self.now
        )
        done = [
            (number, index)
            for number, count in enumerate(SIZES)
            for index in range(count)
            if (number, index) <= place
        ]
        if not self.indexes and place[1] + 1 < SIZES[place[0]]:
            done = [each for each in done if each[0] < place[0]]
        if place not in self.again:
            self.acknowledged |= set(done)
        self.hand = {each: message for each, message in self.hand.items() if each > place}
        self.read()

    @rule()
    def redeliver_all(self) -> None:
        self.machine.redeliver_all()
        self.given.clear()
        self.read()

    @rule()
    def pause_and_resume(self) -> None:
        self.machine.pause()
        self.receive(1)
        self.machine.resume()
        self.read()

    @rule(seconds=st.sampled_from([0.05, 0.1, 1.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.machine.tick(self.now)
        self.read()
        due = self.machine.due()
        assert due is None or due > self.now

    # What holds

    @invariant()
    def permits_are_within_the_queue(self) -> None:
        if not hasattr(self, "machine") or not self.machine.attached:
            return
        flying = sum(left.bit_count() for _, _, left in self.wire)
        # The entry that took the last permit may have cost more.
        assert self.permits + flying + len(self.machine) < self.size + max(SIZES)

    def teardown(self) -> None:
        """In the end nothing is stuck: all comes, and all is acknowledged at the broker."""
        if not hasattr(self, "machine"):
            return
        self.machine.detach()
        self.given.clear()
        self.attach()
        for _ in range(4 * len(SIZES)):
            self.deliver(len(SIZES))
            if self.wire:
                self.arrive(len(self.wire))
            self.receive(self.size)
            while self.hand:
                self.acknowledge(0)
            self.wait(LATER_S)
        assert not self.left


TestConsumerProgram = ConsumerProgram.TestCase
TestConsumerProgram.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


State = Callable[[ConsumerMachine[bytes]], object]
ENTRY, BATCH = body_of([b"one"]), body_of([b"a", b"b", b"c"])


def attached(machine: ConsumerMachine[bytes]) -> None:
    machine.attach(0.0)
    machine.on_message(command_of(0), ENTRY, 0.0)


def lost(machine: ConsumerMachine[bytes]) -> None:
    attached(machine)
    machine.detach()


def seeking(machine: ConsumerMachine[bytes]) -> None:
    attached(machine)
    machine.begin_seek()


def seeking_lost(machine: ConsumerMachine[bytes]) -> None:
    seeking(machine)
    machine.detach()


def paused(machine: ConsumerMachine[bytes]) -> None:
    attached(machine)
    machine.pause()


def closed(machine: ConsumerMachine[bytes]) -> None:
    attached(machine)
    machine.close()


def flushed(machine: ConsumerMachine[bytes]) -> None:
    machine.acks.acknowledge((1, 0), -1, 0, 0.0)
    machine.acks.flush(0.0)


STATES: dict[str, State] = {
    "new": lambda _machine: None,
    "attached": attached,
    "lost": lost,
    "seeking": seeking,
    "seeking, lost": seeking_lost,
    "paused": paused,
    "closed": closed,
}

INPUTS: dict[str, State] = {
    "attach": lambda machine: machine.attach(0.0),
    "detach": lambda machine: machine.detach(),
    "message": lambda machine: machine.on_message(command_of(1), ENTRY, 0.0),
    "batch": lambda machine: machine.on_message(command_of(1), BATCH, 0.0),
    "damaged": lambda machine: machine.on_message(command_of(1), ENTRY[:-1] + b"?", 0.0),
    "take": lambda machine: machine.take(0.0),
    "wait": lambda machine: machine.wait(),
    "stop waiting": lambda machine: machine.stop_waiting(),
    "pause": lambda machine: machine.pause(),
    "resume": lambda machine: machine.resume(),
    "acknowledge": lambda machine: machine.acks.acknowledge((1, 0), -1, 0, 0.0),
    "flush": flushed,
    "redeliver": lambda machine: machine.redeliver([(1, 0)]),
    "redeliver all": lambda machine: machine.redeliver_all(),
    "begin seek": lambda machine: machine.begin_seek(),
    "end seek": lambda machine: machine.end_seek(EARLIEST, done=True),
    "fail seek": lambda machine: machine.end_seek(EARLIEST, done=False),
    "tick": lambda machine: machine.tick(LATER_S),
    "close": lambda machine: machine.close(),
}  # fmt: skip

ATTACHED = {
    "attach": "flow 4", "batch": "", "damaged": "ack", "flush": "ack", "redeliver": "redeliver",
    "redeliver all": "redeliver",
}  # fmt: skip
SAID: dict[str, dict[str, str]] = {
    "new": {"attach": "flow 4"},
    "attached": ATTACHED | {"attach": "flow 3"},
    "lost": {"attach": "flow 4"},
    "seeking": ATTACHED | {"attach": "flow 3"},
    "seeking, lost": {"attach": "flow 4"},
    "paused": ATTACHED | {"attach": ""},
    "closed": {"attach": "flow 4"},
}
"""What leaves for each input in each state, if anything does."""

SHORT = {
    CommandFlow: "flow",
    CommandAck: "ack",
    CommandRedeliverUnacknowledgedMessages: "redeliver",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("given", INPUTS)
def test_each_input_says_in_each_state_what_it_should(state: str, given: str) -> None:
    machine = machine_of()
    STATES[state](machine)
    machine.acks.output.clear()
    INPUTS[given](machine)
    sent = []
    for each in machine.acks.output:
        name = SHORT[type(each)]  # type: ignore[index]
        sent.append(f"flow {each.messagePermits}" if isinstance(each, CommandFlow) else name)
    assert " ".join(sent) == SAID[state].get(given, "")
    assert machine.attached or not sent


@pytest.mark.parametrize("state", STATES)
def test_the_application_gets_a_message_where_there_is_one(state: str) -> None:
    machine = machine_of()
    STATES[state](machine)
    found = machine.take(0.0)
    assert (found is not None) == (state in ("attached", "paused"))


def test_what_came_too_often_is_given_up_and_is_out_of_the_way_once_it_stands_elsewhere() -> None:
    machine = machine_of(
        dead_letters=DeadLetterPolicy(redeliveries_max=1, topic="d"), negative_ack_delay_s=5.0
    )
    machine.attach(0.0)
    for entry, count in ((0, 1), (1, 2), (2, 3)):
        machine.on_message(command_of(entry, redeliveries=count), ENTRY, 0.0)
    assert len(machine) == 1
    first, second = machine.given_up
    assert [each.entry.id for each in (first, second)] == [(1, 1), (1, 2)]
    machine.acks.output.clear()
    machine.dead_letter_stored(first, 0.0)
    machine.dead_letters_failed([second], 0.0)
    machine.acks.flush(0.0)
    assert [type(each) for each in machine.acks.output] == [CommandFlow, CommandAck]
    machine.acks.output.clear()
    machine.tick(6.0)
    (again,) = machine.acks.output
    assert isinstance(again, CommandRedeliverUnacknowledgedMessages)
    assert [each.entryId for each in again.message_ids] == [2]


def test_what_is_damaged_is_counted_and_acknowledged_with_what_is_wrong() -> None:
    machine = machine_of()
    attached(machine)
    machine.acks.output.clear()
    INPUTS["damaged"](machine)
    (ack,) = machine.acks.output
    assert isinstance(ack, CommandAck)
    assert ack.validation_error == CommandAck.ChecksumMismatch
    found = machine.counts.statistics(len(machine), 1.0, machine.attached)
    assert (found.messages_damaged, found.messages_queued) == (1, 1)


@pytest.mark.parametrize("kind", SubscriptionType)
def test_a_chunk_without_the_others_comes_again_later_and_not_at_once(
    kind: SubscriptionType,
) -> None:
    machine = machine_of(kind, negative_ack_delay_s=5.0)
    machine.attach(0.0)
    machine.acks.output.clear()
    bodies = chunks_of(b"x" * 120, 50)
    machine.on_message(command_of(1), bodies[0], 0.0)
    machine.on_message(command_of(3), bodies[2], 0.0)
    redeliver = CommandRedeliverUnacknowledgedMessages
    assert not [each for each in machine.acks.output if isinstance(each, redeliver)]
    due = machine.due()
    assert due is not None
    assert 5.0 <= due < 6.0
    machine.tick(due)
    (request,) = [each for each in machine.acks.output if isinstance(each, redeliver)]
    asked = [each.entryId for each in request.message_ids]
    assert asked == ([1, 3] if kind.is_shared else [])
    for entry, body in enumerate(bodies, 1):
        machine.on_message(command_of(entry, machine.epoch), body, due)
    message = machine.take(due)
    assert message is not None
    assert message.data == b"x" * 120


@pytest.mark.parametrize("kind", SubscriptionType)
def test_acknowledgements_are_sent_before_the_broker_may_redeliver(kind: SubscriptionType) -> None:
    machine = machine_of(kind)
    attached(machine)
    message = machine.take(0.0)
    assert message is not None
    machine.detach()
    machine.acks.acknowledge(message.entry.id, -1, 0, 0.0)
    machine.attach(0.0)
    assert [type(each) for each in machine.acks.output] == [CommandAck, CommandFlow]
