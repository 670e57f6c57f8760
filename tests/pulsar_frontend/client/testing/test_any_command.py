"""Any command, with anything in it, at any time: what the client makes of it is a typed error or
nothing at all."""

import logging
from random import Random
from typing import Any, Final

import anyio
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as Command
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar_frontend.client.in_memory import client_of, early
from tests.pulsar_frontend.client.testing.hostile_broker import HostileBroker, Line, played

from arneb_pulsar.client import ProducerOptions
from arneb_pulsar.client.connection.machine import ConnectionMachine
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.frame import payload_frame, simple_frame
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

NUMBERS: Final = (0, 1, 2, 3, 7, 1 << 31, (1 << 63) - 1)
"""Most of them name something that is there."""

SMALL: Final = (0, 1, 2, -1, (1 << 31) - 1, -(1 << 31))
TEXTS: Final = ("", "x", "pulsar://fake-1:6650", "persistent://public/default/orders", "\x00")
Field = FieldDescriptor


def value_of(field: FieldDescriptor, dice: Random) -> Any:
    """Anything that a field can hold; None for a message."""
    match field.type:
        case Field.TYPE_BOOL:
            return dice.random() < 0.5
        case Field.TYPE_STRING:
            return dice.choice(TEXTS)
        case Field.TYPE_BYTES:
            return dice.randbytes(dice.choice((0, 1, 8, 40)))
        case Field.TYPE_ENUM:
            return dice.choice(list(field.enum_type.values_by_number))
        case Field.TYPE_INT32 | Field.TYPE_SINT32:
            return dice.choice(SMALL)
        case Field.TYPE_DOUBLE | Field.TYPE_FLOAT:
            return dice.random()
        case Field.TYPE_MESSAGE:
            return None
    number = dice.choice(NUMBERS)
    return number % (1 << 32) if field.type == Field.TYPE_UINT32 else number


def fill(command: Command, dice: Random, depth: int = 0) -> None:
    """Fill in what must be there, and some of the rest."""
    for field in command.DESCRIPTOR.fields:
        if not field.is_required and (depth > 2 or dice.random() < 0.5):
            continue
        repeated = field.is_repeated
        for _ in range(dice.choice((0, 1, 3)) if repeated else 1):
            value = value_of(field, dice)
            held = getattr(command, field.name)
            if value is None:
                fill(held.add() if repeated else held, dice, depth + 1)
                if not repeated:
                    held.SetInParent()
            elif repeated:
                held.append(value)
            else:
                setattr(command, field.name, value)


def any_frame(dice: Random) -> bytes:
    """A whole frame, with a message behind it where one belongs, or something like it."""
    field = dice.choice([each for each in pb.BaseCommand.DESCRIPTOR.fields if each.name != "type"])
    base = pb.BaseCommand(type=field.number)
    held = getattr(base, field.name)
    held.SetInParent()
    fill(held, dice)
    raw = base.SerializeToString()
    if field.name not in ("message", "send"):
        return simple_frame(raw)
    metadata = pb.MessageMetadata()
    fill(metadata, dice)
    body = join_body(metadata.SerializeToString(), dice.randbytes(dice.choice((0, 1, 30))))
    if dice.random() < 0.2:
        body = body[: dice.randrange(len(body))]
    return payload_frame(raw, body)


@pytest.fixture(autouse=True)
def _nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Any:
    """What is caught as our own mistake is one."""
    caplog.set_level(logging.ERROR, "arneb_pulsar.client")
    yield
    assert not [each for each in caplog.records if "could not be taken" in each.message]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 64))
def test_a_program_ends_well_or_with_a_typed_error(seed: int) -> None:
    dice = Random(seed)

    def attack(line: Line, command: Any) -> bool:
        if isinstance(command, pb.CommandConnect) and dice.random() < 0.9:
            return False
        for _ in range(dice.choice((0, 0, 1, 3))):
            line.write(any_frame(dice))
        return dice.random() < 0.1

    async def main() -> None:
        broker = HostileBroker(attack)
        async with client_of(broker, operation_timeout_s=5.0) as client:
            for _ in range(3):
                try:
                    options = ProducerOptions(batching=None, send_timeout_s=5)
                    producer = await client.create_producer("orders", options)
                    consumer = await client.subscribe("orders", "billing", early())
                    await producer.send(b"x")
                    message = await consumer.receive(5)
                    with anyio.move_on_after(5):
                        await consumer.acknowledge_stored(message)
                    await consumer.seek(0)
                    reader = await client.create_reader("orders", message.id)
                    await reader.has_message_available()
                except PulsarError:
                    pass
            with anyio.move_on_after(60):
                await client.close()

    played(main, within_s=1_000)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 64), opened=st.booleans(), mutated=st.booleans())
def test_a_connection_takes_any_bytes(seed: int, opened: bool, mutated: bool) -> None:
    dice = Random(seed)
    machine = ConnectionMachine("broker", pb.CommandConnect(client_version="x"), 0.0)
    if opened:
        base = pb.BaseCommand(type=pb.BaseCommand.CONNECTED)
        base.connected.server_version = "x"
        machine.receive(simple_frame(base.SerializeToString()), 0.0)
    calls: list[PulsarError | None] = []
    machine.request(
        pb.CommandSeek(consumer_id=1), "seek", lambda _reply, error: calls.append(error)
    )
    data = bytearray(b"".join(any_frame(dice) for _ in range(10)))
    if mutated:
        for _ in range(5):
            data[dice.randrange(len(data))] = dice.randrange(256)
    while data:
        size = dice.randint(1, 200)
        machine.receive(bytes(data[:size]), 0.0)
        del data[:size]
    machine.lost(PulsarError("over"))
    assert len(calls) == 1
