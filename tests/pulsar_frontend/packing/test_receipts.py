"""Receipts and deliveries packed by hand are what protobuf would write, read by protobuf."""

from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import IDS, read

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.packing.deliveries import MessageFrames
from arneb_pulsar.packing.receipts import pack_receipts, receipt
from arneb_pulsar.wire.ack_sets import mask_of
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand, CommandMessage

LEDGERS = st.integers(1, (1 << 30) - 1)
TOPICS = st.integers(1, (1 << 32) - 1).map(LedgerIds)
ENTRIES = st.one_of(st.integers(0, 300), st.integers(0, (1 << 32) - 2))
SIGNED_IDS = st.integers(0, (1 << 63) - 1)


def commands_in(frames: bytes) -> list[BaseCommand]:
    return [BaseCommand.FromString(command) for command, _ in read(FrameReader(), frames)]


@given(
    producer=IDS,
    first=IDS | st.integers(16_000, 17_000),
    count=st.integers(1, 300),
    ledger=LEDGERS,
    entry=st.integers(0, (1 << 32) - 302) | st.integers(0, 17_000),
    ids=TOPICS,
)
def test_a_run_of_receipts_is_protobufs(
    producer: int, first: int, count: int, ledger: int, entry: int, ids: LedgerIds
) -> None:
    sequences = [min(first + index, (1 << 64) - 1) for index in range(count)]
    packed = pack_receipts(producer, sequences, position_at(ledger, entry), ids)
    one_by_one = [
        receipt(producer, sequence, 0, position_at(ledger, entry + index), ids)
        for index, sequence in enumerate(sequences)
    ]
    assert packed == b"".join(one_by_one)


@given(producer=IDS, sequences=st.lists(IDS, min_size=1, max_size=20), ledger=LEDGERS, ids=TOPICS)
def test_receipts_take_sequence_ids_in_any_order(
    producer: int, sequences: list[int], ledger: int, ids: LedgerIds
) -> None:
    found = commands_in(pack_receipts(producer, sequences, position_at(ledger, 120), ids))
    assert [command.type for command in found] == [BaseCommand.SEND_RECEIPT] * len(sequences)
    receipts = [command.send_receipt for command in found]
    assert [each.producer_id for each in receipts] == [producer] * len(sequences)
    assert [each.sequence_id for each in receipts] == sequences
    assert [each.message_id.ledgerId for each in receipts] == [ids.of(ledger)] * len(sequences)
    assert [each.message_id.entryId for each in receipts] == list(range(120, 120 + len(sequences)))


@given(IDS, IDS, IDS)
def test_a_receipt_echoes_the_highest_sequence_id(producer: int, first: int, last: int) -> None:
    (command,) = commands_in(receipt(producer, first, last, position_at(7, 9)))
    assert command.send_receipt.highest_sequence_id == last


def test_a_duplicates_receipt_has_no_place() -> None:
    (command,) = commands_in(receipt(1, 2, 0, None))
    assert command.send_receipt.message_id.ledgerId == (1 << 64) - 1


def entry_of(body: bytes) -> bytes:
    return EntryHeader(Origin.PULSAR).pack() + body


@st.composite
def runs(draw: st.DrawFn) -> Deliveries:
    """Neighbours, strays over several ledgers, redelivered and half-acknowledged ones."""
    if draw(st.booleans()):
        ledger, first = draw(LEDGERS), draw(st.integers(0, 1 << 22))
        count = draw(st.integers(1, 200))
        places = [position_at(ledger, first + index) for index in range(count)]
    else:
        places = draw(
            st.lists(st.builds(position_at, LEDGERS, ENTRIES), min_size=1, max_size=20, unique=True)
        )
    bodies = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
    entries = [entry_of(bodies[index % len(bodies)]) for index in range(len(places))]
    some = st.dictionaries(st.sampled_from(places), st.integers(1, 1 << 30), max_size=4)
    counts = draw(st.one_of(st.none(), some))
    masks = draw(
        st.one_of(
            st.none(),
            st.dictionaries(st.sampled_from(places), st.integers(1, (1 << 200) - 1), max_size=4),
        )
    )
    return Deliveries(places, entries, None, counts, masks)


@given(
    run=runs(),
    consumer=IDS,
    partition=st.one_of(st.just(-1), st.integers(0, 1000)),
    epoch=st.one_of(st.none(), IDS),
    ids=TOPICS,
)
def test_deliveries_say_what_the_run_says(
    run: Deliveries, consumer: int, partition: int, epoch: int | None, ids: LedgerIds
) -> None:
    frames = MessageFrames(consumer, partition, epoch, ids=ids)
    frames.pack(Deliveries([position_at(3, 4)], [entry_of(b"before")]))
    found = read(FrameReader(), frames.pack(run))
    assert [payload for _, payload in found] == [entry[40:] for entry in run.entries]
    for place, (data, _) in zip(run.positions, found, strict=True):
        command = BaseCommand.FromString(data)
        assert command.type == BaseCommand.MESSAGE
        assert_says(command.message, place, run, consumer, partition, epoch, ids)
        assert data == command.SerializeToString(), "the bytes must be those that protobuf writes"


def assert_says(
    message: CommandMessage,
    place: Position,
    run: Deliveries,
    consumer: int,
    partition: int,
    epoch: int | None,
    ids: LedgerIds,
) -> None:
    assert message.consumer_id == consumer
    assert (message.message_id.ledgerId, message.message_id.entryId) == ids.place(place)
    assert message.message_id.partition == partition
    assert message.redelivery_count == (run.redelivery_counts or {}).get(place, 0)
    assert mask_of(message.ack_set) == (run.masks or {}).get(place, 0)
    assert message.HasField("consumer_epoch") == (epoch is not None)
    assert message.consumer_epoch == (epoch or 0)


def test_many_body_sizes_do_not_gather_without_end() -> None:
    frames = MessageFrames(1)
    for size in range(10_000):
        frames.pack(Deliveries([position_at(1, 200)], [entry_of(bytes(size))]))
    assert max(map(len, frames._heads.values())) <= 4096
