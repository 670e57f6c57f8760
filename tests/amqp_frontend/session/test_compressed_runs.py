"""Runs that wait to be decompressed: their order, their pieces, and what is forgotten."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.session import compressed_runs as module
from arneb_amqp.session.compressed_runs import IN_A_PIECE, IN_A_TURN, CompressedRuns, Messages
from arneb_amqp.wire.constants import ChannelId
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries

ONE, TWO = ChannelId(1), ChannelId(2)


class Sized:
    """A codec whose entries say how much they unpack to."""

    origin = Origin.PULSAR

    def decode(self, entry: bytes) -> list[Message]:
        return [Message(entry[HEADER_BYTES:])]

    def decompressed_bytes(self, entry: bytes) -> int:
        return int(entry[HEADER_BYTES:])


@pytest.fixture(autouse=True, scope="module")
def codec() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "codecs", lambda: {Origin.PULSAR: Sized()})
        yield


def run_of(*sizes: int, ledger: int = 1) -> Deliveries:
    """Entries that unpack to these sizes; those of AMQP's that unpack to nothing."""
    entries = [
        EntryHeader(Origin.PULSAR if size else Origin.AMQP).pack() + b"%d" % size for size in sizes
    ]
    places = [position_at(ledger, number) for number in range(len(sizes))]
    return Deliveries(places, entries, offsets=list(range(len(sizes))))


def plain(run: Deliveries) -> Messages:
    return run.positions, run.entries, {}


def test_only_large_runs_wait_and_later_ones_on_their_channel() -> None:
    waiting = CompressedRuns()
    assert not waiting.takes(ONE, run_of(0, 0))
    assert not waiting.takes(ONE, run_of(IN_A_TURN // 2, IN_A_TURN // 2))
    assert waiting.takes(ONE, run_of(IN_A_TURN // 2, IN_A_TURN // 2 + 1))
    waiting.put(ONE, "q", run_of(IN_A_TURN + 1), lambda *_: None)
    assert waiting.takes(ONE, run_of(0))
    assert not waiting.takes(TWO, run_of(0))
    piece = waiting.first()
    assert piece is not None
    waiting.sent(piece, plain(piece.run))
    assert not waiting
    assert not waiting.takes(ONE, run_of(0))


sizes = st.sampled_from([0, 0, 1, 1000, IN_A_TURN, IN_A_PIECE // 2, IN_A_PIECE, 3 * IN_A_PIECE])


@given(st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.lists(sizes, min_size=1)), min_size=1))
def test_everything_is_sent_once_in_order_and_in_pieces(
    runs: list[tuple[ChannelId, list[int]]],
) -> None:
    waiting, sent = CompressedRuns(), []
    expected = []
    for ledger, (channel, given_sizes) in enumerate(runs, 1):
        run = run_of(*given_sizes, ledger=ledger)
        offsets = run.offsets or []
        expected += [(channel, *each) for each in zip(run.positions, offsets, strict=True)]

        def send(part: Deliveries, messages: Messages, channel: ChannelId = channel) -> None:
            assert messages == plain(part)
            places = zip(part.positions, part.offsets or [], strict=True)
            sent.extend((channel, *each) for each in places)

        waiting.put(channel, "q", run, send)
    total = sum(len(entry) for _, given_sizes in runs for entry in run_of(*given_sizes).entries)
    assert waiting.bytes_waiting == total
    while (piece := waiting.first()) is not None:
        large = [each for each in map(Sized().decompressed_bytes, piece.run.entries) if each]
        assert sum(large) == piece.decompressed_bytes
        assert piece.decompressed_bytes <= IN_A_PIECE or len(large) == 1
        waiting.sent(piece, plain(piece.run))
    assert sent == expected
    assert (waiting.bytes_waiting, waiting.sent_total) == (0, waiting.put_total)


def test_what_is_decompressed_for_a_channel_that_has_ended_is_not_sent() -> None:
    waiting, sent = CompressedRuns(), []

    def send(part: Deliveries, _: Messages) -> None:
        sent.extend(part.positions)

    gone = run_of(IN_A_PIECE, IN_A_PIECE, ledger=1)
    stays = run_of(IN_A_PIECE, ledger=2)
    waiting.put(ONE, "q", gone, send)
    waiting.put(TWO, "q", stays, send)
    first = waiting.first()
    assert first is not None
    waiting.forget(ONE)
    waiting.sent(first, plain(first.run))
    assert (sent, waiting.sent_total) == ([], 1)
    assert waiting.bytes_waiting == len(stays.entries[0])
    second = waiting.first()
    assert second is not None
    waiting.sent(second, plain(second.run))
    assert sent == stays.positions
    assert not waiting
