"""Reading a span block by block: it ends, whatever the source gives."""

from collections.abc import Sequence

import pytest
from log_generator import amqp_entry

from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.block import encode_block
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.stored_blocks import StoredBlock
from pyspark_arneb.decode.chunks import Chunk, read_chunks
from pyspark_arneb.plan.ranges import Loss, Span

SPAN = Span(TopicId(1), "t", position_at(3, 0), position_at(3, 9), 10)


class Asked:
    """A source that does not look where the span ends, and is not asked for ever."""

    def __init__(self, *runs: tuple[Position, int]) -> None:
        self.blocks = [
            StoredBlock(
                Position(first + count - 1),
                bytes(encode_block(first, [amqp_entry(b"body")] * count)),
            )
            for first, count in runs
        ]
        self.asked = 0

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        self.asked += 1
        assert self.asked < 5, "it must not ask for ever"
        return [block for block in self.blocks if block.last >= first]


@pytest.mark.parametrize(
    ("runs", "rows", "losses"),
    [
        ((), 0, [(0, 9)]),
        (((position_at(3, 10), 4),), 0, [(0, 9)]),
        (((position_at(7, 0), 4),), 0, [(0, 9)]),
        (((position_at(3, 0), 4), (position_at(7, 0), 4)), 4, [(4, 9)]),
        (((position_at(3, 6), 8),), 4, [(0, 5)]),
    ],
    ids=["nothing", "behind", "another ledger", "half", "the end"],
)
def test_what_a_source_does_not_give_is_lost_and_not_asked_for_again(
    runs: tuple[tuple[Position, int], ...], rows: int, losses: list[tuple[int, int]]
) -> None:
    lost: list[Loss] = []
    found = list(read_chunks(Asked(*runs), SPAN, lost.append))  # type: ignore[arg-type]
    assert all(isinstance(each, Chunk) for each in found)
    assert sum(len(each.entries) for each in found if isinstance(each, Chunk)) == rows
    assert lost == [
        Loss("t", position_at(3, first), position_at(3, last), topic_id=SPAN.topic_id)
        for first, last in losses
    ]
