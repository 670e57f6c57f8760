"""Consumer machines for tests, and entries for them."""

from arneb_pulsar.client import ConsumerOptions, Message, SubscriptionType
from arneb_pulsar.client.codec.schemas.schema import BytesSchema
from arneb_pulsar.client.consumer.machine import ConsumerMachine
from arneb_pulsar.client.consumer.message import PlainDecoder
from arneb_pulsar.client.consumer.unpacking import Unpacker
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.packing import Packer
from arneb_pulsar.client.trackers.ack_grouping import AckGroupingTracker
from arneb_pulsar.client.trackers.chunks import ChunkAssembler
from arneb_pulsar.client.trackers.receiver_queue import ReceiverQueue
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandMessage, MessageIdData

TOPIC = "persistent://public/default/t"


def machine_of(
    kind: SubscriptionType = SubscriptionType.SHARED, size: int = 4, **more: object
) -> ConsumerMachine[bytes]:
    """A machine as a client makes it."""
    options = ConsumerOptions(type=kind, queue_size=size, **more)  # type: ignore[arg-type]
    chunks = ChunkAssembler()
    queue: ReceiverQueue[Message[bytes]] = ReceiverQueue(size)
    tracker = AckGroupingTracker(batch_index_acks=options.batch_index_acks)
    unpacker = Unpacker(TOPIC, -1, PlainDecoder(BytesSchema()), chunks)
    return ConsumerMachine(1, TOPIC, options, tracker, queue, chunks, unpacker)


def body_of(texts: list[bytes]) -> bytes:
    """The body of an entry: of a batch, or of one message alone."""
    packer = Packer(1)
    packer.name = "p"
    messages = [OutgoingMessage(text, number) for number, text in enumerate(texts)]
    if len(messages) == 1:
        frame = packer.pack_single(messages[0], 0, 1 << 20, 0)[0].frame
    else:
        frame = packer.pack_batch(messages, 0).frame
    _, bodies = FrameReader().receive(frame)
    return bodies[0]


def chunks_of(text: bytes, size: int) -> list[bytes]:
    """The bodies of the entries of one message in chunks."""
    packer = Packer(1)
    packer.name = "p"
    chunks = packer.pack_single(OutgoingMessage(text, 0), 0, 1 << 20, size)
    _, bodies = FrameReader().receive(b"".join([each.frame for each in chunks]))
    return list(bodies)


def command_of(entry: int, epoch: int | None = None, redeliveries: int = 0) -> CommandMessage:
    """The MESSAGE that brings an entry."""
    place = MessageIdData(ledgerId=1, entryId=entry)
    command = CommandMessage(consumer_id=1, message_id=place, redelivery_count=redeliveries)
    if epoch is not None:
        command.consumer_epoch = epoch
    return command
