"""The producer's machine against a model of its broker: whatever happens, each message is told its
fate once, what is stored is in order, and what is resent is what was sent."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arneb_pulsar.client.errors import PulsarError, TimedOut
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import Fate, OutgoingMessage
from arneb_pulsar.client.producer.machine import LOST_ENTRY, ProducerMachine
from arneb_pulsar.client.producer.options import Batching, ProducerOptions
from arneb_pulsar.client.producer.packing import Packer
from arneb_pulsar.client.trackers.batching import DefaultBatches
from arneb_pulsar.wire.commands import parse_command
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    MessageIdData,
)

TIMEOUT_S = 30.0


class ProducerProgram(RuleBasedStateMachine):
    """An application, a machine, and a broker that stores in the order in which frames come."""

    @initialize(batched=st.booleans())
    def begin(self, batched: bool) -> None:
        batching = Batching(messages_max=3, delay_s=1.0) if batched else None
        options = ProducerOptions(batching=batching, send_timeout_s=TIMEOUT_S)
        batches = DefaultBatches(messages_max=3, delay_s=1.0) if batched else None
        self.machine = ProducerMachine("t", -1, options, Packer(1), batches)
        self.now = 0.0
        self.messages: list[OutgoingMessage] = []
        self.told: dict[int, list[MessageId | Exception]] = {}
        self.frames: dict[int, bytes] = {}
        self.unanswered: list[CommandSend] = []
        self.stored: list[int] = []
        self.attach()

    @precondition(lambda self: not self.machine.attached)
    @rule()
    def attach(self) -> None:
        reply = CommandProducerSuccess(request_id=1, producer_name="p")
        self.machine.attach(reply, 5 << 20)
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
        told = self.told.setdefault(number, [])

        def callback(found: MessageId | None, error: Exception | None) -> None:
            told.append(found if found is not None else error or AssertionError())

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
            receipt = CommandSendReceipt(
                producer_id=1,
                sequence_id=send.sequence_id,
                highest_sequence_id=send.highest_sequence_id,
                message_id=MessageIdData(ledgerId=1, entryId=send.sequence_id),
            )
            assert self.machine.on_receipt(receipt, self.now)

    @rule(number=st.integers(0, 50))
    def answer_what_was_answered(self, number: int) -> None:
        """A receipt of before a reconnection, or after a time-out."""
        settled = [each for each in self.messages if each.fate in (Fate.STORED, Fate.FAILED)]
        pending = [each for each in self.messages if each.fate is Fate.SENT]
        if settled and (not pending or settled[0].sequence_id < pending[0].sequence_id):
            receipt = CommandSendReceipt(producer_id=1, sequence_id=settled[0].sequence_id)
            before = [each.fate for each in self.messages]
            assert self.machine.on_receipt(receipt, self.now)
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
        output, self.machine.output = self.machine.output, []
        for frame in output:
            commands, _ = FrameReader().receive(frame)
            send = parse_command(commands[0]).send
            assert self.frames.setdefault(send.sequence_id, frame) == frame
            assert not self.unanswered or self.unanswered[-1].sequence_id < send.sequence_id
            self.unanswered.append(send)

    @invariant()
    def each_is_told_once(self) -> None:
        for message, told in zip(
            getattr(self, "messages", []), getattr(self, "told", {}).values(), strict=True
        ):
            match message.fate:
                case Fate.STORED:
                    (found,) = told
                    assert isinstance(found, MessageId)
                case Fate.FAILED:
                    (found,) = told
                    assert isinstance(found, TimedOut | PulsarError)
                case _:
                    assert not told

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


def test_a_receipt_of_what_is_there_already_may_overtake_those_of_pieces_before_it() -> None:
    """As Apache Pulsar answers what is sent again: all pieces but the last are stored once more."""
    options = ProducerOptions(batching=None, chunking=True, chunk_bytes_max=10)
    machine = ProducerMachine("t", -1, options, Packer(1), None)
    machine.attach(CommandProducerSuccess(request_id=1, producer_name="p"), 5 << 20)
    told: list[int] = []
    for number in range(3):
        message = OutgoingMessage(
            b"x" * 15, callback=lambda _found, _error, number=number: told.append(number)
        )
        machine.send(message, 0.0, 0)
    assert len(machine.output) == 6

    def receipt(number: int, entry: int) -> CommandSendReceipt:
        place = MessageIdData(ledgerId=entry % (1 << 64), entryId=entry % (1 << 64))
        return CommandSendReceipt(producer_id=1, sequence_id=number, message_id=place)

    for number in range(3):
        assert machine.on_receipt(receipt(number, -1), 0.0)
    for number in range(3):
        assert machine.on_receipt(receipt(number, 10 + number), 0.0)
    assert told == [0, 1, 2]
    assert machine.pending_messages == 0


def in_pieces() -> tuple[ProducerMachine, list[MessageId]]:
    """A machine that has sent a message in three pieces, and the ids that its sender was told."""
    options = ProducerOptions(chunking=True, chunk_bytes_max=50, batching=None)
    machine = ProducerMachine("t", -1, options, Packer(1), None)
    machine.attach(CommandProducerSuccess(request_id=1, producer_name="p"), 5 << 20)
    told: list[MessageId] = []

    def callback(found: MessageId | None, error: Exception | None) -> None:
        assert found is not None, error
        told.append(found)

    machine.send(OutgoingMessage(b"x" * 120, callback=callback), 0.0, 0)
    return machine, told


def receipt_of_piece(entry: int) -> CommandSendReceipt:
    place = MessageIdData(ledgerId=1 if entry < LOST_ENTRY else LOST_ENTRY, entryId=entry)
    return CommandSendReceipt(producer_id=1, sequence_id=0, message_id=place)


def test_a_receipt_that_comes_twice_is_of_one_piece() -> None:
    machine, told = in_pieces()
    frames = list(machine.output)
    for entry in (7, 7, 8, 7, 8):
        assert machine.on_receipt(receipt_of_piece(entry), 0.0)
    machine.detach()
    machine.attach(CommandProducerSuccess(request_id=2, producer_name="p"), 5 << 20)
    assert machine.output == frames[2:]
    assert told == []
    for entry in (9, 9):
        assert machine.on_receipt(receipt_of_piece(entry), 0.0)
    (found,) = told
    assert (found.entry, found.first_chunk) == ((1, 9), MessageId(1, 7))


def test_a_message_that_was_there_is_there_with_all_its_pieces() -> None:
    machine, told = in_pieces()
    for _ in range(3):
        assert machine.on_receipt(receipt_of_piece(LOST_ENTRY), 0.0)
    assert [each.entry for each in told] == [(-1, -1)]
