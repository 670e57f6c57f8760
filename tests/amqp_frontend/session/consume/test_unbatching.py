"""Unbatching of another protocol's batches: how often each is opened."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.session.consume import unbatching
from arneb_amqp.session.consume.unbatching import LARGE_BATCH, OPENED_MAX, unbatched
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries


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


def test_a_large_batch_is_opened_once_for_a_consumer_that_gets_it_message_by_message(
    codec: CountingCodec,
) -> None:
    place, count = position_at(1, 1), 10 * LARGE_BATCH
    for number in range(count):
        # A new object each time, since it may be read again.
        run = Deliveries([place], [bytes(bytearray(batch(count)))], masks={place: 1 << number})
        places, entries, parts = unbatched(run, "q")
        assert (places, parts) == ([place], {0: number})
        assert entries[0].endswith(b"%d\xce" % number)
    assert codec.opened == 1


def test_only_a_few_are_remembered(codec: CountingCodec) -> None:
    for _ in range(2):
        for more in range(1, OPENED_MAX + 2):
            unbatched(Deliveries([position_at(1, more)], [batch(LARGE_BATCH + more)]), "q")
    assert codec.opened == 2 * (OPENED_MAX + 1)


@given(st.data(), st.integers(2, 200))
def test_only_the_wanted_messages_of_a_batch_are_sent(data: st.DataObject, count: int) -> None:
    chosen = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    beyond = data.draw(st.sampled_from([0, 1 << count, 5 << count + 70]))
    mask = sum(1 << each for each in chosen) | beyond
    assert list(unbatching._wanted(mask, count)) == sorted(chosen)
    assert list(unbatching._wanted(-1, count)) == list(range(count))
