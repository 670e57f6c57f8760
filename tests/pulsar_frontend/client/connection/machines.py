"""Connection machines for tests, who is attached to them, and what a broker says."""

from typing import Any

from arneb_pulsar.client.connection.machine import ConnectionMachine, State
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.frame import FrameReader, payload_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandMessage,
    CommandSendError,
    CommandSendReceipt,
    MessageIdData,
)

HELLO = commands.connected("test", 21, 1_000)


class Attached:
    """A producer and a consumer, that note what they are told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        self.seen.append(receipt.sequence_id)

    def on_send_error(self, error: CommandSendError) -> None:
        self.seen.append(error.message)

    def on_message(self, message: CommandMessage, body: bytes) -> None:
        self.seen.append((message.message_id.entryId, body))

    def on_active(self, is_active: bool) -> None:
        self.seen.append(is_active)

    def on_end_of_topic(self) -> None:
        self.seen.append("end")

    def on_closed(self, hint: str) -> None:
        self.seen.append(("closed", hint))

    def on_lost(self, error: PulsarError) -> None:
        self.seen.append(type(error))


def made() -> ConnectionMachine:
    return ConnectionMachine("test", CommandConnect(client_version="t"), 0.0)


def opened() -> ConnectionMachine:
    machine = made()
    machine.receive(HELLO, 0.0)
    machine.output.clear()
    assert machine.state is State.OPEN
    return machine


def sent(machine: ConnectionMachine) -> list[BaseCommand]:
    found, _ = FrameReader().receive(b"".join(machine.output))
    machine.output.clear()
    return [BaseCommand.FromString(each) for each in found]


def message(entry: int, body: bytes) -> bytes:
    command = CommandMessage(consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=entry))
    base = BaseCommand(type=BaseCommand.MESSAGE, message=command)
    return payload_frame(base.SerializeToString(), body)
