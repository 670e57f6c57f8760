"""Batches of another protocol, taken apart: how often one is opened."""

from collections.abc import Iterator

import pytest

from arneb_amqp.session.consume import unbatching
from arneb_amqp.session.consume.unbatching import LARGE_BATCH, OPENED_MAX, unbatched
from arneb_core.api.codec import Message
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import EntryHeader, Origin
from arneb_core.api.position import position


class CountingCodec:
    """Knows how many messages an entry has, and how often it was asked."""

    origin = Origin.PULSAR

    def __init__(self) -> None:
        self.opened = 0

    def decode(self, entry: bytes) -> list[Message]:
        self.opened += 1
        count = int(entry.rpartition(b"x")[2])
        return [Message(b"%d" % number, batch_index=number) for number in range(count)]


@pytest.fixture
def codec(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingCodec]:
    counting = CountingCodec()
    monkeypatch.setattr(unbatching, "codecs", lambda: {Origin.PULSAR: counting})
    unbatching._opened.cache_clear()
    yield counting
    unbatching._opened.cache_clear()


def batch(count: int) -> bytes:
    return EntryHeader(Origin.PULSAR, messages=count).pack() + b"x%d" % count


def test_a_large_batch_is_opened_once_for_whoever_gets_it_message_by_message(
    codec: CountingCodec,
) -> None:
    place, count = position(1, 1), 10 * LARGE_BATCH
    for number in range(count):
        # Another object each time, as it may be read again.
        run = Deliveries([place], [bytes(bytearray(batch(count)))], masks={place: 1 << number})
        places, entries, masks = unbatched(run, "q")
        assert (places, masks) == ([place], {0: 1 << number})
        assert entries[0].endswith(b"%d\xce" % number)
    assert codec.opened == 1


def test_only_few_are_remembered(codec: CountingCodec) -> None:
    for _ in range(2):
        for more in range(1, OPENED_MAX + 2):
            unbatched(Deliveries([position(1, more)], [batch(LARGE_BATCH + more)]), "q")
    assert codec.opened == 2 * (OPENED_MAX + 1)
