"""What the core makes of the hints of chunks: which of them belong together, where keys move."""

from pathlib import Path

from tests.core.engine.subscriptions.test_key_shared_groups import begin

from arneb_core.api.entries.entry import HINT, HINT_OFFSET
from arneb_core.dispatch.groups import groups_of
from arneb_core.dispatch.selector import SLOTS
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, attach, quiet
from arneb_pulsar.packing.entries import make_entry
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata

FIRST, BETWEEN, LATER = 231, 296, 311
"""Numbers of one producer's messages; the first and the last have the same hint."""


def chunk(number: int, index: int, key: bytes) -> bytes:
    """A half of a message, as a producer of the name ``chunks`` sends it."""
    name = "chunks"
    metadata = MessageMetadata(
        producer_name=name,
        sequence_id=number,
        publish_time=1,
        partition_key=key.decode(),
        uuid=f"{name}-{number}",
        num_chunks_from_msg=2,
        chunk_id=index,
        total_chunk_msg_size=2,
    )
    return make_entry(join_body(metadata.SerializeToString(), b"%d" % index), 1)


def hint_of(entry: bytes) -> int:
    hint: int = HINT.unpack_from(entry, HINT_OFFSET)[0]
    return hint


def test_the_chunks_of_two_messages_are_two_groups_though_their_hints_agree() -> None:
    entries = [chunk(number, index, b"k") for number in (FIRST, LATER) for index in (0, 1)]
    assert len(set(map(hint_of, entries))) == 1
    groups = groups_of(entries, [7] * 4)
    assert groups is not None
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert {each % SLOTS for each in groups} == {7}
    elsewhere = groups_of(entries, [8] * 4)
    assert elsewhere is not None
    assert not {*groups} & {*elsewhere}


async def test_no_message_passes_others_of_its_key_for_a_hint_when_the_key_moves(
    tmp_path: Path,
) -> None:
    """The former owner has the first half of one, and room; the others wait for its answer."""
    async with open_engine(tmp_path) as engine:
        keys = await begin(engine, permits=1)
        moves = keys.moves
        await append(engine, "t", [chunk(FIRST, 0, moves)])
        await quiet(engine)
        waiting = [chunk(BETWEEN, 0, moves), chunk(BETWEEN, 1, moves), chunk(LATER, 0, moves)]
        first = await append(engine, "t", waiting)
        await quiet(engine)
        new, new_sink = attach(
            keys.subscription,
            name="b",
            type=keys.old.spec.type,
            permits=10,
            sharing=keys.sharing,
        )
        keys.old.flow(10)
        last = await append(engine, "t", [chunk(LATER, 1, moves), chunk(FIRST, 1, moves)])
        await quiet(engine)
        assert keys.old_sink.positions == [first - 1, last + 1], (
            "both chunks must go to the same consumer"
        )
        assert new_sink.positions == []
        keys.old.acknowledge(keys.old_sink.positions)
        await quiet(engine)
        assert new_sink.positions == [first, first + 1, first + 2, last]
        assert new.in_flight == 4
