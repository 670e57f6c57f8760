"""Producer machines for tests, and what a broker answers them."""

from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.machine import ProducerMachine
from arneb_pulsar.client.producer.options import Batching, ProducerOptions
from arneb_pulsar.client.producer.packing import Packer
from arneb_pulsar.client.trackers.batching import DefaultBatches
from arneb_pulsar.wire.commands import parse_command
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    MessageIdData,
    ServerError,
)

BYTES_MAX = 5 << 20
TIMEOUT_S = 30.0
DELAY_S = 1.0


def machine_of(*, batched: bool = False, **more: object) -> ProducerMachine:
    """A machine as a client makes it, which is not attached; ``batched``: in batches of three."""
    batching = Batching(messages_max=3, delay_s=DELAY_S) if batched else None
    options = ProducerOptions(batching=batching, send_timeout_s=TIMEOUT_S, **more)  # type: ignore[arg-type]
    batches = DefaultBatches(messages_max=3, delay_s=DELAY_S) if batched else None
    return ProducerMachine("t", -1, options, Packer(1), batches)


def attach(machine: ProducerMachine, bytes_max: int = BYTES_MAX) -> None:
    """A broker lets it in."""
    machine.attach(CommandProducerSuccess(request_id=1, producer_name="p"), bytes_max)


def receipt_of(sequence_id: int, entry: int, highest: int = 0) -> CommandSendReceipt:
    """That a SEND stands in an entry; -1 = it was there before."""
    place = MessageIdData(ledgerId=(1 if entry >= 0 else -1) % (1 << 64), entryId=entry % (1 << 64))
    return CommandSendReceipt(
        producer_id=1, sequence_id=sequence_id, highest_sequence_id=highest, message_id=place
    )


def refusal_of(sequence_id: int, code: "ServerError.ValueType") -> CommandSendError:
    """That a SEND is not taken."""
    return CommandSendError(producer_id=1, sequence_id=sequence_id, error=code, message="no")


def taken_output(machine: ProducerMachine) -> list[tuple[CommandSend, bytes]]:
    """What it has written, and is not to write again: each SEND with its frame."""
    frames, machine.output = machine.output, []
    found = []
    for frame in frames:
        commands, _ = FrameReader().receive(frame)
        found.append((parse_command(commands[0]).send, frame))
    return found


class Outcomes:
    """What senders were told, in the order of telling: ``stored 0``, or ``NotAllowed 0``."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.ids: list[MessageId] = []
        self.messages: list[OutgoingMessage] = []

    def message(self, payload: bytes = b"x") -> OutgoingMessage:
        """The next message."""
        number = len(self.messages)

        def callback(found: MessageId | None, error: Exception | None) -> None:
            self.all.append(f"{'stored' if found else type(error).__name__} {number}")
            if found is not None:
                self.ids.append(found)

        self.messages.append(OutgoingMessage(payload, callback=callback))
        return self.messages[-1]
