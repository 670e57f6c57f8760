"""What the wire's property tests draw from: commands, payloads, and damage done to them."""

from hypothesis import strategies as st

from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.frame import FrameReader, payload_frame, simple_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandFlow,
    CommandPing,
    CommandSend,
    MessageMetadata,
)

UINT64 = st.integers(0, (1 << 64) - 1)
IDS = st.one_of(st.integers(0, 300), UINT64)
"""Producer, consumer, request and sequence ids: mostly small, sometimes of any size."""

TEXT = st.text(max_size=20)


@st.composite
def metadata(draw: st.DrawFn) -> MessageMetadata:
    """Metadata of a single message or a batch."""
    found = MessageMetadata(
        producer_name=draw(st.text(min_size=1, max_size=20)),
        sequence_id=draw(IDS),
        publish_time=draw(st.integers(0, 1 << 42)),
    )
    if draw(st.booleans()):
        found.partition_key = draw(TEXT)
    if draw(st.booleans()):
        found.ordering_key = draw(st.binary(max_size=20))
    for key, value in draw(st.dictionaries(TEXT, TEXT, max_size=3)).items():
        found.properties.add(key=key, value=value)
    if draw(st.booleans()):
        found.event_time = draw(st.integers(0, 1 << 42))
    if draw(st.booleans()):
        found.deliver_at_time = draw(st.integers(-(1 << 42), 1 << 42))
    if draw(st.booleans()):
        found.num_messages_in_batch = draw(st.integers(1, 1000))
    return found


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Headers and payload as a client sends them."""
    return join_body(draw(metadata()).SerializeToString(), draw(st.binary(max_size=60)))


@st.composite
def sends(draw: st.DrawFn) -> bytes:
    """The bytes of a SEND command."""
    send = CommandSend(producer_id=draw(IDS), sequence_id=draw(IDS))
    if draw(st.booleans()):
        send.num_messages = draw(st.integers(1, 1000))
    if draw(st.booleans()):
        send.highest_sequence_id = draw(IDS)
    return BaseCommand(type=BaseCommand.SEND, send=send).SerializeToString()


def simple_commands() -> st.SearchStrategy[bytes]:
    """The bytes of commands without a payload."""
    ping = BaseCommand(type=BaseCommand.PING, ping=CommandPing())
    flows = st.builds(
        lambda consumer, permits: BaseCommand(
            type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=consumer, messagePermits=permits)
        ),
        IDS,
        st.integers(0, (1 << 32) - 1),
    )
    return st.one_of(st.just(ping), flows).map(BaseCommand.SerializeToString)


def frames() -> st.SearchStrategy[tuple[bytes, bytes]]:
    """(command, payload) of any frame."""
    simple = simple_commands().map(lambda command: (command, b""))
    return st.one_of(simple, st.tuples(sends(), bodies()))


def encode(frame: tuple[bytes, bytes]) -> bytes:
    """The frame's bytes on the wire."""
    command, payload = frame
    return payload_frame(command, payload) if payload else simple_frame(command)


def read(reader: FrameReader, *pieces: bytes) -> list[tuple[bytes, bytes]]:
    """(command, payload) of each frame that the pieces complete."""
    return [frame for piece in pieces for frame in zip(*reader.receive(piece), strict=True)]


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """``data`` in pieces, as a socket gives it."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """``data`` with some bytes changed, cut out, or put in."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        match draw(st.sampled_from(["change", "cut", "insert"])):
            case "change" if at < len(changed):
                changed[at] = draw(st.integers(0, 255))
            case "cut":
                del changed[at : at + draw(st.integers(1, 8))]
            case _:
                changed[at:at] = draw(st.binary(min_size=1, max_size=8))
    return bytes(changed)
