"""Runs of entries of other origins: how far a turn goes, and that the order stays."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar_frontend.session.consume.test_consumers import attach, pulsar_entry
from tests.pulsar_frontend.session.playbook import Playbook, received

from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import longstr
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.codec import CODEC
from arneb_pulsar.session.interface.events import Delivered
from arneb_pulsar.session.output import TRANSLATED_UNITS
from arneb_pulsar.session.translation import MESSAGE_UNITS, METADATA_BYTES_A_UNIT
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand

PULSAR_BODY = b"body"


def amqp_entry(header: bytes, number: int) -> bytes:
    headers = {"h": longstr(header)}
    content = compose(ChannelId(1), encode_properties(Properties(headers=headers)), b"%d" % number)
    route = join_route("", "q")
    return EntryHeader(Origin.AMQP, hint=len(route)).pack() + route + content


def read_frames(data: list[bytes]) -> list[tuple[int, int | None, bytes]]:
    """Entry id, epoch and value of every message; the frames of a turn are whole."""
    found = []
    for raw in data:
        for frame, body in zip(*FrameReader().receive(raw), strict=True):
            command = BaseCommand.FromString(frame)
            if command.type == BaseCommand.MESSAGE:
                value = body
                if body != PULSAR_BODY:
                    (decoded,) = CODEC.decode(EntryHeader(Origin.PULSAR).pack() + body)
                    value = decoded.value
                epoch = command.message.consumer_epoch
                found.append((command.message.message_id.entryId, epoch, value))
            else:
                found.append((-1, None, b""))
    return found


@settings(max_examples=50)
@given(
    sizes=st.lists(st.sampled_from([0, 500, 40_000]), min_size=1, max_size=30),
    cuts=st.sets(st.integers(1, 29)),
)
def test_a_turn_translates_only_so_much_and_leaves_the_rest_for_later(
    sizes: list[int], cuts: set[int]
) -> None:
    """As if all of it had been translated when it was delivered, whatever happens meanwhile."""
    play = Playbook()
    key = attach(play)
    entries = [
        amqp_entry(b"x" * size, number) if size else pulsar_entry()
        for number, size in enumerate(sizes)
    ]
    session, expected = play.session, []
    edges = [0, *sorted(cut for cut in cuts if cut < len(sizes)), len(sizes)]
    for epoch, (start, stop) in enumerate(pairwise(edges)):
        positions = [position_at(1, number) for number in range(start, stop)]
        session.handle(Delivered(key, Deliveries(positions, entries[start:stop])), play.now)
        for number in range(start, stop):
            body = b"%d" % number if sizes[number] else PULSAR_BODY
            expected.append((number, epoch, body))
        again = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=epoch + 1)
        session.receive_data(received(again).data, play.now, play.clock_ms)
    last = pb.CommandCloseConsumer(consumer_id=1, request_id=9)
    session.receive_data(received(last).data, play.now, play.clock_ms)
    frames, turns = [], 0
    while session.has_unsent or not turns:
        waited = session.waiting_bytes
        data = session.data_to_send()
        assert session.waiting_bytes < waited
        units = sum(MESSAGE_UNITS + len(raw) // METADATA_BYTES_A_UNIT for raw in data)
        assert units < TRANSLATED_UNITS + 40_000 // METADATA_BYTES_A_UNIT + 2_000
        frames += read_frames(data)
        turns += 1
    assert frames == [*expected, (-1, None, b"")]
    assert session.waiting_bytes == 0
    assert turns > sum(sizes) // METADATA_BYTES_A_UNIT // (TRANSLATED_UNITS + 10_000)
