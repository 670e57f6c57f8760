"""The producer's machine against a model of its broker: whatever happens, each message is told its
fate once, what is stored is in order, and what is resent is what was sent."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.pulsar_frontend.client.producer.machines import (
    TIMEOUT_S,
    Outcomes,
    attach,
    machine_of,
    receipt_of,
    refusal_of,
    taken_output,
)

from arneb_pulsar.client.errors import NotAllowed, TimedOut
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import Fate, OutgoingMessage
from arneb_pulsar.client.producer.machine import ProducerMachine
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSend, ServerError


class ProducerProgram(RuleBasedStateMachine):
    """An application, a machine, and a broker that stores in the order in which frames come."""

    @initialize(batched=st.booleans())
    def begin(self, batched: bool) -> None:
        self.machine = machine_of(batched=batched)
        self.now = 0.0
        self.messages: list[OutgoingMessage] = []
        self.outcomes: dict[int, list[MessageId | Exception]] = {}
        self.frames: dict[int, bytes] = {}
        self.unanswered: list[CommandSend] = []
        self.stored: list[int] = []
        self.attach()

    @precondition(lambda self: not self.machine.attached)
    @rule()
    def attach(self) -> None:
        attach(self.machine)
        self.unanswered = []
        self.write()

    @precondition(lambda self: self.machine.attached)
    @rule()
    def lose(self) -> None:
        self.machine.detach()
        assert not self.machine.output

    @rule(size=st.integers(0, 10))
    def send(self, size: int) -> None:
        number = len(self.messages)
        outcomes = self.outcomes.setdefault(number, [])

        def callback(found: MessageId | None, error: Exception | None) -> None:
            outcomes.append(found if found is not None else error or AssertionError())

        message = OutgoingMessage(b"x" * size, callback=callback)
        self.machine.send(message, self.now, 0)
        self.messages.append(message)
        assert message.sequence_id == number
        self.write()

    @precondition(lambda self: self.messages)
    @rule(which=st.integers(0, 1_000))
    def withdraw(self, which: int) -> None:
        message = self.messages[which % len(self.messages)]
        before = message.fate
        assert self.machine.withdraw(message) == (before is Fate.HELD)

    @precondition(lambda self: self.machine.attached and self.unanswered)
    @rule(count=st.integers(1, 4))
    def answer(self, count: int) -> None:
        for _ in range(min(count, len(self.unanswered))):
            send = self.unanswered.pop(0)
            number, highest = send.sequence_id, send.highest_sequence_id
            assert self.machine.on_receipt(receipt_of(number, number, highest), self.now)

    @precondition(lambda self: self.machine.attached and self.unanswered)
    @rule(which=st.integers(0, 100))
    def refuse(self, which: int) -> None:
        """Any of those that are under way, before or after the others are answered."""
        send = self.unanswered.pop(which % len(self.unanswered))
        refused = refusal_of(send.sequence_id, ServerError.NotAllowedError)
        assert self.machine.on_send_error(refused, self.now) is None

    @rule(number=st.integers(0, 50))
    def answer_what_was_answered(self, number: int) -> None:
        """A receipt of before a reconnection, or after a time-out."""
        settled = [each for each in self.messages if each.fate in (Fate.STORED, Fate.FAILED)]
        pending = [each for each in self.messages if each.fate is Fate.SENT]
        if settled and (not pending or settled[0].sequence_id < pending[0].sequence_id):
            number = settled[0].sequence_id
            before = [each.fate for each in self.messages]
            assert self.machine.on_receipt(receipt_of(number, number), self.now)
            assert [each.fate for each in self.messages] == before

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0, TIMEOUT_S]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = self.machine.due()
        self.machine.tick(self.now, 0)
        after = self.machine.due()
        assert after is None or after > self.now or due is None
        self.write()

    def write(self) -> None:
        """What goes out is read by the broker: never another frame for the same number."""
        for send, frame in taken_output(self.machine):
            assert self.frames.setdefault(send.sequence_id, frame) == frame
            assert not self.unanswered or self.unanswered[-1].sequence_id < send.sequence_id
            self.unanswered.append(send)

    @invariant()
    def each_is_told_once(self) -> None:
        for message, outcomes in zip(
            getattr(self, "messages", []), getattr(self, "outcomes", {}).values(), strict=True
        ):
            match message.fate:
                case Fate.STORED:
                    (found,) = outcomes
                    assert isinstance(found, MessageId)
                case Fate.FAILED:
                    (found,) = outcomes
                    assert isinstance(found, TimedOut | NotAllowed)
                case _:
                    assert not outcomes

    @invariant()
    def what_is_pending_is_counted(self) -> None:
        if not hasattr(self, "machine"):
            return
        open_fates = (Fate.HELD, Fate.SENT)
        pending = [each for each in self.messages if each.fate in open_fates]
        assert self.machine.pending_messages >= len(pending)
        if not self.machine.pending_messages:
            assert not pending
            assert self.machine.pending_bytes == 0


TestProducerProgram = ProducerProgram.TestCase
TestProducerProgram.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def chunking(count: int, payload_bytes: int) -> tuple[ProducerMachine, Outcomes]:
    """A machine that has sent so many messages in chunks of 50 bytes, and what was told."""
    machine, outcomes = machine_of(chunking=True, chunk_bytes_max=50), Outcomes()
    attach(machine)
    for _ in range(count):
        machine.send(outcomes.message(b"x" * payload_bytes), 0.0, 0)
    return machine, outcomes


def test_a_receipt_of_what_is_there_already_may_overtake_those_of_chunks_before_it() -> None:
    """As Apache Pulsar answers what is sent again: all chunks but the last are stored once more."""
    machine, outcomes = chunking(3, 60)
    assert len(machine.output) == 6
    for number in range(3):
        assert machine.on_receipt(receipt_of(number, -1), 0.0)
    for number in range(3):
        assert machine.on_receipt(receipt_of(number, 10 + number), 0.0)
    assert outcomes.all == ["stored 0", "stored 1", "stored 2"]
    assert machine.pending_messages == 0


def test_a_receipt_that_comes_twice_is_of_one_chunk() -> None:
    machine, outcomes = chunking(1, 120)
    frames = list(machine.output)
    for entry in (7, 7, 8, 7, 8):
        assert machine.on_receipt(receipt_of(0, entry), 0.0)
    machine.detach()
    attach(machine)
    assert machine.output == frames[2:]
    assert outcomes.ids == []
    for entry in (9, 9):
        assert machine.on_receipt(receipt_of(0, entry), 0.0)
    (found,) = outcomes.ids
    assert (found.entry, found.first_chunk) == ((1, 9), MessageId(1, 7))


def test_a_message_that_was_there_is_there_with_all_its_chunks() -> None:
    machine, outcomes = chunking(1, 120)
    for _ in range(3):
        assert machine.on_receipt(receipt_of(0, -1), 0.0)
    assert [each.entry for each in outcomes.ids] == [(-1, -1)]


@pytest.mark.parametrize("code", [ServerError.NotAllowedError, ServerError.ChecksumError])
@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_message_of_which_a_chunk_is_refused_has_failed(
    answered: int, code: "ServerError.ValueType"
) -> None:
    """What is stored of it is never whole: it is not to be taken for stored."""
    machine, outcomes = chunking(2, 120)
    for entry in range(answered):
        assert machine.on_receipt(receipt_of(0, entry), 0.0)
    assert machine.on_send_error(refusal_of(0, code), 0.0) is None
    name = "NotAllowed" if code == ServerError.NotAllowedError else "ChecksumRefused"
    assert outcomes.all == [f"{name} 0"]
    # The chunks behind it were stored.
    for entry in range(answered, 3):
        assert machine.on_receipt(receipt_of(0, entry), 0.0)
    machine.detach()
    attach(machine)
    assert [send.sequence_id for send, _ in taken_output(machine)] == [1, 1, 1]
    for entry in range(10, 13):
        assert machine.on_receipt(receipt_of(1, entry), 0.0)
    assert outcomes.all[1:] == ["stored 1"]
    assert (machine.pending_messages, machine.pending_bytes) == (0, 0)


@pytest.mark.parametrize("batched", [True, False])
def test_a_refusal_may_overtake_the_receipts_of_what_was_sent_before(batched: bool) -> None:
    """Brokers refuse at once, and confirm when the disk is done."""
    machine, outcomes = machine_of(batched=batched), Outcomes()
    attach(machine)
    for _ in range(3):
        machine.send(outcomes.message(), 0.0, 0)
        machine.close_batches(0.0, 0)
    assert machine.on_send_error(refusal_of(1, ServerError.NotAllowedError), 0.0) is None
    assert outcomes.all == ["NotAllowed 1"]
    for number in (0, 2):
        assert machine.on_receipt(receipt_of(number, number), 0.0)
    assert outcomes.all == ["NotAllowed 1", "stored 0", "stored 2"]
    assert machine.pending_messages == 0


def test_messages_that_overtook_a_refused_one_are_reported_with_its_refusal() -> None:
    machine, outcomes = chunking(2, 60)
    assert machine.on_receipt(receipt_of(1, -1), 0.0)
    assert machine.on_send_error(refusal_of(0, ServerError.NotAllowedError), 0.0) is None
    assert outcomes.all == ["NotAllowed 0"]
    assert machine.on_receipt(receipt_of(1, 5), 0.0)
    assert outcomes.all == ["NotAllowed 0", "stored 1"]
