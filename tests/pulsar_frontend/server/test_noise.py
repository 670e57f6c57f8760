"""Bad input, by the hundred: it ends the connection that sent it, and nothing else."""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
import trio.testing
from google.protobuf.message import Message
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.server.listener import serve_connection
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe, MessageIdData

pytestmark = pytest.mark.real_time

CONNECTIONS = 300
SEED = 20_260_101


SCHEMA = pb.Schema(
    name="s", schema_data=b'{"type":"record","name":"R","fields":[]}', type=pb.Schema.Avro
)


def conversation(number: int) -> list[bytes]:
    """Frames of a client that does a little of everything."""
    topic = f"noise-{number % 3}"
    some_id = MessageIdData(ledgerId=1, entryId=number % 5, ack_set=[number])
    commands: list[Message] = [
        pb.CommandConnect(client_version="noise", protocol_version=20),
        pb.CommandPartitionedTopicMetadata(topic=topic, request_id=1),
        pb.CommandLookupTopic(topic=topic, request_id=2),
        pb.CommandProducer(
            topic=topic,
            producer_id=1,
            request_id=3,
            producer_access_mode=number % 7 % 4,
            topic_epoch=number % 3,
            schema=SCHEMA if number % 4 else None,
        ),
        pb.CommandGetSchema(request_id=13, topic=topic, schema_version=bytes(8)),
        pb.CommandGetOrCreateSchema(request_id=14, topic=topic, schema=SCHEMA),
        pb.CommandWatchTopicList(
            request_id=15, watcher_id=1, namespace="public/default", topics_pattern="public/.*"
        ),
        pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=b"x")),
        pb.CommandWatchTopicListClose(request_id=16, watcher_id=1),
        CommandSubscribe(
            topic=topic, subscription="s", subType=number % 4, consumer_id=1, request_id=4
        ),
        pb.CommandFlow(consumer_id=1, messagePermits=10),
        pb.CommandAck(consumer_id=1, ack_type=number % 2, message_id=[some_id], request_id=5),
        pb.CommandSeek(
            consumer_id=1, request_id=6, message_id=MessageIdData(ledgerId=1, entryId=1)
        ),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[some_id]),
        pb.CommandGetLastMessageId(consumer_id=1, request_id=7),
        pb.CommandGetTopicsOfNamespace(request_id=8, namespace="public/default"),
        pb.CommandConsumerStats(request_id=9, consumer_id=1),
        pb.CommandUnsubscribe(consumer_id=1, request_id=10),
        pb.CommandCloseProducer(producer_id=1, request_id=11),
        pb.CommandCloseConsumer(consumer_id=1, request_id=12),
    ]
    frames = [received(command).data for command in commands]
    send = pb.CommandSend(producer_id=1, sequence_id=number, is_chunk=number % 5 == 0)
    frames.insert(6, received(send, body=body_of(b"x" * 20)).data)
    return frames


def shuffled(frames: list[bytes], chance: random.Random) -> bytes:
    return b"".join(frames[:1] + chance.sample(frames[1:], len(frames) - 1))


def flipped(frames: list[bytes], chance: random.Random) -> bytes:
    data = bytearray(b"".join(frames))
    for _ in range(chance.randint(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def truncated(frames: list[bytes], chance: random.Random) -> bytes:
    data = b"".join(frames)
    return data[: chance.randrange(len(data))]


def spliced(frames: list[bytes], chance: random.Random) -> bytes:
    data = b"".join(frames)
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randint(1, 30)) + data[at + chance.randint(0, 20) :]


def noise(_: list[bytes], chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, 400))


KINDS: list[Callable[[list[bytes], random.Random], bytes]] = [
    shuffled, flipped, truncated, spliced, noise,
]  # fmt: skip


async def disturb(context: BrokerContext, data: bytes, chance: random.Random) -> None:
    """One bad client from beginning to end."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connection, context, theirs, "pulsar://here:1", "noise")
        at = 0
        with suppress(trio.BrokenResourceError):  # the broker need not hear it all
            while at < len(data):
                step = chance.randint(1, 200)
                await ours.send_all(data[at : at + step])
                at += step
                await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()


@pytest.mark.parametrize("deduplication", [False, True])
async def test_bad_clients_end_alone(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture, deduplication: bool
) -> None:
    chance = random.Random(SEED)
    async with open_broker(probe_timeout_s=0.01, deduplication=deduplication) as running:
        async with connected(running.context) as (good,):
            await good.producer("good")
            await good.subscribe("good")
            await good.flow(10_000)
            for number in range(CONNECTIONS):
                kind = KINDS[number % len(KINDS)]
                await disturb(running.context, kind(conversation(number), chance), chance)
                if number % 20 == 0:
                    await still_served(good, number)
        assert not running.context.consumers._by_topic
        assert not running.context.producers._accesses
        assert not running.context.watchers._by_namespace
    assert "failed" not in caplog.text, "the input caused an error of the broker's own"


async def still_served(client: RawClient, number: int) -> None:
    await client.publish(b"%d" % number, first=number)
    found = {type(command) for command, _ in await client.take(2)}
    assert found == {pb.CommandSendReceipt, pb.CommandMessage}
