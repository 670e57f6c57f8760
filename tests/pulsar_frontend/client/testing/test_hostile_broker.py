"""A broker that does what no broker does: the client's memory and time are bounded, what its
application is told is a typed error, and no task is left."""

from itertools import count
from typing import Any

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of, early
from tests.pulsar_frontend.client.testing.hostile_broker import (
    HostileBroker,
    Line,
    little_memory,
    played,
)

from arneb_pulsar.client import ProducerOptions
from arneb_pulsar.client.connection.commands import frame_of
from arneb_pulsar.client.connection.machine import ConnectionMachine, State
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.errors import (
    ConnectError,
    PulsarError,
    ServiceNotReady,
    TimedOut,
    UnexpectedAnswer,
)
from arneb_pulsar.client.lookup.lookup import PARTITIONS_MAX
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.frame import payload_frame
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

CONNECTED = frame_of(pb.CommandConnected(server_version="x", max_message_size=(1 << 31) - 1))
SINGLE = ProducerOptions(batching=None, send_timeout_s=5)
ASKED = (pb.CommandPartitionedTopicMetadata, pb.CommandLookupTopic, pb.CommandProducer)
GARBAGE = [
    b"\x00" * 64,
    b"\xff" * 64,
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x00\x00\x00\x07\x00\x00\x00\x03\x08\x09\x4a",  # the head of a MESSAGE, and no more
    b"\x00\x00\x00\x07\x00\x00\x00\x03\x08\x07\x3a",
    b"\x7f\xff\xff\xff\x00\x00\x00\x08" + b"\x00" * 64,  # a frame of 2 GiB
    b"\x00\x00\x00\x08\x7f\xff\xff\xff" + b"\x00" * 64,  # a command larger than its frame
]


async def produce_and_consume(broker: HostileBroker) -> None:
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", SINGLE)
        consumer = await client.subscribe("orders", "billing", early())
        await producer.send(b"x")
        message = await consumer.receive(5)
        await consumer.acknowledge_stored(message)


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("at", [pb.CommandConnect, *ASKED, pb.CommandSend, pb.CommandFlow])
def test_garbage_ends_its_connection_with_a_clear_error(garbage: bytes, at: type) -> None:
    def attack(line: Line, command: Any) -> bool:
        if isinstance(command, at):
            line.write(garbage)
        return isinstance(command, at)

    async def main() -> None:
        with pytest.raises((ConnectError, TimedOut)):
            await produce_and_consume(HostileBroker(attack))

    played(main)


@pytest.mark.parametrize(
    "at", [pb.CommandConnect, *ASKED, pb.CommandSubscribe, pb.CommandSend, pb.CommandFlow]
)
def test_a_broker_that_is_silent_is_waited_for_so_long(at: type) -> None:
    async def main() -> None:
        broker = HostileBroker(lambda _line, command: isinstance(command, at))
        with pytest.raises((ConnectError, TimedOut)):
            await produce_and_consume(broker)

    played(main)


@pytest.mark.parametrize("new", [False, True], ids=["in a circle", "to ever new brokers"])
def test_redirects_end(new: bool) -> None:
    numbers = count(1)

    def attack(line: Line, command: Any) -> bool:
        if not isinstance(command, pb.CommandLookupTopic):
            return False
        line.say(
            pb.CommandLookupTopicResponse(
                request_id=command.request_id,
                response=pb.CommandLookupTopicResponse.Redirect,
                brokerServiceUrl=f"pulsar://elsewhere-{next(numbers) if new else 1}:6650",
            )
        )
        return True

    async def main() -> None:
        broker = HostileBroker(attack)
        async with client_of(broker) as client:
            with pytest.raises(ServiceNotReady, match="redirected"):
                await client.create_producer("orders", SINGLE)
            assert len(broker.open_streams) < 50
            assert len(client._context.pool._open) < 50

    played(main)


@pytest.mark.parametrize("partitions", [PARTITIONS_MAX + 1, 1 << 31, (1 << 32) - 1])
def test_a_topic_of_billions_of_partitions_is_refused(partitions: int) -> None:
    def attack(line: Line, command: Any) -> bool:
        if not isinstance(command, pb.CommandPartitionedTopicMetadata):
            return False
        line.say(
            pb.CommandPartitionedTopicMetadataResponse(
                request_id=command.request_id,
                response=pb.CommandPartitionedTopicMetadataResponse.Success,
                partitions=partitions,
            )
        )
        return True

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            # First what costs least if it goes wrong.
            with pytest.raises(UnexpectedAnswer, match="partitions"):
                await client.partitions_of("orders")
            with pytest.raises(UnexpectedAnswer, match="partitions"):
                await client.create_producer("orders")
            with pytest.raises(UnexpectedAnswer, match="partitions"):
                await client.subscribe("orders", "billing")

    with little_memory():
        played(main)


@pytest.mark.parametrize("at", [*ASKED, pb.CommandSubscribe, pb.CommandSeek])
@pytest.mark.parametrize(
    "answer",
    [
        pb.CommandSuccess(request_id=0),
        pb.CommandGetLastMessageIdResponse(
            request_id=0, last_message_id=pb.MessageIdData(ledgerId=1, entryId=1)
        ),
        pb.CommandNewTxnResponse(request_id=0),
    ],
    ids=lambda each: each.DESCRIPTOR.name,
)
def test_an_answer_to_another_question_is_none(at: type, answer: Any) -> None:
    def attack(line: Line, command: Any) -> bool:
        if isinstance(command, at):
            answer.request_id = command.request_id
            line.say(answer)
        return isinstance(command, at)

    async def main() -> None:
        async with client_of(HostileBroker(attack), operation_timeout_s=5) as client:
            with pytest.raises(UnexpectedAnswer):
                await client.create_producer("orders", SINGLE)
                consumer = await client.subscribe("orders", "billing")
                await consumer.seek(0)

    if isinstance(answer, pb.CommandSuccess) and at in (pb.CommandSubscribe, pb.CommandSeek):
        return  # that is the right one
    played(main)


def receipt(command: Any, sequence_id: int) -> pb.CommandSendReceipt:
    return pb.CommandSendReceipt(
        producer_id=command.producer_id,
        sequence_id=sequence_id,
        message_id=pb.MessageIdData(ledgerId=1, entryId=sequence_id % 1000),
    )


@pytest.mark.parametrize("sequence_id", [1, 1_000, (1 << 63) - 1, (1 << 64) - 1])
def test_a_receipt_of_what_was_not_sent_is_none(sequence_id: int) -> None:
    """Its connection is not to be relied upon: the client comes back, and not in a hurry."""

    def attack(line: Line, command: Any) -> bool:
        if isinstance(command, pb.CommandSend):
            line.say(receipt(command, sequence_id))
        return isinstance(command, pb.CommandSend)

    async def main() -> None:
        broker = HostileBroker(attack)
        async with client_of(broker) as client:
            producer = await client.create_producer("orders", SINGLE)
            with pytest.raises(TimedOut):
                await producer.send(b"x")
            assert 3 <= broker.dialled <= 30

    played(main)


def test_receipts_and_messages_for_unknown_ids_are_ignored() -> None:
    def attack(line: Line, command: Any) -> bool:
        for number in (0, 77, (1 << 64) - 1):
            line.say(
                pb.CommandSendReceipt(producer_id=number + 100 & 0xFFFF, sequence_id=number),
                pb.CommandCloseProducer(producer_id=9_999, request_id=number),
                pb.CommandCloseConsumer(consumer_id=9_999, request_id=number),
                pb.CommandActiveConsumerChange(consumer_id=9_999, is_active=True),
                pb.CommandReachedEndOfTopic(consumer_id=9_999),
                pb.CommandSuccess(request_id=1 << 40),
                pb.CommandPong(),
            )
            line.write(message(9_999, number, b"x"))
        return False

    async def main() -> None:
        await produce_and_consume(HostileBroker(attack))

    played(main)


def message(consumer_id: int, entry: int, payload: bytes, **more: Any) -> bytes:
    """The frame of a MESSAGE."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **more)
    head = metadata.SerializeToString()
    body = join_body(head, payload)
    command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
    command.message.consumer_id = consumer_id
    command.message.message_id.ledgerId = 1
    command.message.message_id.entryId = entry
    return payload_frame(command.SerializeToString(), body)


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0, 1 << 21, (1 << 31) - 1])
def test_a_batch_of_billions_of_messages_is_none(size: int) -> None:
    sent = False

    def attack(line: Line, command: Any) -> bool:
        nonlocal sent
        if isinstance(command, pb.CommandFlow) and not sent:
            sent = True
            line.write(message(command.consumer_id, 1, b"x", num_messages_in_batch=size))
            line.write(message(command.consumer_id, 2, b"after"))
        return False

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            consumer = await client.subscribe("orders", "billing", early())
            assert (await consumer.receive(5)).data == b"after"

    with little_memory():
        played(main)


@pytest.mark.parametrize(
    "chunk",
    [
        {"chunk_id": -1, "num_chunks_from_msg": 2, "total_chunk_msg_size": 10},
        {
            "chunk_id": 0,
            "num_chunks_from_msg": (1 << 31) - 1,
            "total_chunk_msg_size": (1 << 31) - 1,
        },
        {"chunk_id": 5, "num_chunks_from_msg": 2, "total_chunk_msg_size": -1},
        {"chunk_id": 0, "num_chunks_from_msg": -5, "total_chunk_msg_size": 1},
    ],
)
def test_chunks_of_impossible_messages_are_put_aside(chunk: dict[str, int]) -> None:
    sent = False

    def attack(line: Line, command: Any) -> bool:
        nonlocal sent
        if isinstance(command, pb.CommandFlow) and not sent:
            sent = True
            for number in range(100):
                frame = message(command.consumer_id, number, b"x", uuid=f"u{number}", **chunk)
                line.write(frame)
            line.write(message(command.consumer_id, 200, b"after"))
        return False

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            consumer = await client.subscribe("orders", "billing", early())
            while (await consumer.receive(5)).data != b"after":
                pass

    with little_memory():
        played(main)


def test_messages_beyond_the_permits_do_not_fill_the_memory() -> None:
    entries = count()
    frames = 0

    def attack(line: Line, command: Any) -> bool:
        nonlocal frames
        if isinstance(command, pb.CommandFlow) and frames < 20_000:
            for _ in range(20_000):
                frames += 1
                line.write(message(command.consumer_id, next(entries), bytes(10_000)))
        return False

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            consumer = await client.subscribe("orders", "billing", early(queue_size=10))
            await anyio.sleep(5)
            assert consumer.waiting <= 2_000
            assert frames == 20_000

    played(main)


def test_questions_of_a_broker_that_does_not_listen_do_not_pile_up() -> None:
    machine = ConnectionMachine("broker", pb.CommandConnect(client_version="x"), 0.0)
    machine.receive(CONNECTED, 0.0)
    machine.output.clear()
    for _ in range(1_000):
        machine.receive(frame_of(pb.CommandPing()) * 100, 0.0)
        machine.receive(frame_of(pb.CommandAuthChallenge()) * 100, 0.0)
    assert len(machine.output) == len(machine.challenges) == 1


def test_a_broker_that_announces_huge_messages_gets_no_more_room_for_frames() -> None:
    machine = ConnectionMachine("broker", pb.CommandConnect(client_version="x"), 0.0)
    machine.receive(CONNECTED, 0.0)
    assert machine.message_bytes_max == 128 * 1024 * 1024
    machine.receive(b"\x7f\xff\xff\xff\x00\x00\x00\x08", 0.0)
    assert machine.state is State.CLOSED


def test_a_broker_that_lets_everybody_in_and_throws_them_out_is_not_asked_in_a_hurry() -> None:
    def attack(line: Line, command: Any) -> bool:
        if isinstance(command, pb.CommandSend | pb.CommandFlow):
            line.cut()
            return True
        return False

    async def main() -> None:
        broker = HostileBroker(attack)
        async with client_of(broker) as client:
            producer = await client.create_producer("orders", ProducerOptions(send_timeout_s=0))
            producer.send_nowait(b"x")
            await anyio.sleep(60)
            assert 30 <= broker.dialled <= 130
            producer.abort(TimedOut("enough"))

    played(main)


@pytest.mark.parametrize(
    "hint", ["pulsar://", "nonsense", "pulsar://a:99999", "\x00", "http://x:1"]
)
def test_a_hint_that_is_no_address_is_left_out(hint: str) -> None:
    closed = False

    def attack(line: Line, command: Any) -> bool:
        nonlocal closed
        if isinstance(command, pb.CommandSend) and not closed:
            closed = True
            line.say(
                pb.CommandCloseProducer(
                    producer_id=command.producer_id, request_id=1, assignedBrokerServiceUrl=hint
                )
            )
            return True
        return False

    async def main() -> None:
        await produce_and_consume(HostileBroker(attack))

    played(main)
    assert closed, "it was never asked to move"


@pytest.mark.parametrize("last", [-(1 << 63), -2, (1 << 63) - 1])
def test_last_sequence_ids_that_cannot_be_meant_do_no_harm(last: int) -> None:
    def attack(line: Line, command: Any) -> bool:
        if not isinstance(command, pb.CommandProducer):
            return False
        line.say(
            pb.CommandProducerSuccess(
                request_id=command.request_id, producer_name="p", last_sequence_id=last
            )
        )
        return True

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            producer = await client.create_producer("orders", SINGLE)
            with pytest.raises(PulsarError):
                await producer.send(b"x")

    played(main)


@pytest.mark.parametrize("url", ["", "nonsense", "pulsar://", "ftp://x:1", "pulsar://a:99999"])
def test_a_lookup_that_names_no_broker_fails_with_a_clear_error(url: str) -> None:
    def attack(line: Line, command: Any) -> bool:
        if not isinstance(command, pb.CommandLookupTopic):
            return False
        line.say(
            pb.CommandLookupTopicResponse(
                request_id=command.request_id,
                response=pb.CommandLookupTopicResponse.Connect,
                brokerServiceUrl=url,
            )
        )
        return True

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            if url:
                with pytest.raises(UnexpectedAnswer, match="address"):
                    await client.create_producer("orders", SINGLE)
            else:
                await client.create_producer("orders", SINGLE)  # who was asked has it

    played(main)


def test_a_broker_that_has_let_go_of_a_topic_is_asked_for_its_end_again() -> None:
    """It does not know the consumer any more, and has not told it yet."""
    refused = count(1)

    def attack(line: Line, command: Any) -> bool:
        if not isinstance(command, pb.CommandGetLastMessageId) or next(refused) > 3:
            return False
        line.say(
            pb.CommandError(
                request_id=command.request_id,
                error=pb.ServerError.MetadataError,
                message="Consumer not found",
            )
        )
        return True

    async def main() -> None:
        async with client_of(HostileBroker(attack)) as client:
            producer = await client.create_producer("orders", SINGLE)
            sent = await producer.send(b"x")
            consumer = await client.subscribe("orders", "billing", early())
            assert isinstance(consumer, Consumer)
            assert (await consumer.last_message_id()).entry == sent.entry

    played(main)
