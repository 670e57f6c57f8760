"""Times to live that change: each message has the one that applied when it was published."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.topology.queues.time_to_live import (
    CHANGES_MAX,
    as_held,
    as_stored,
    changed,
    current,
)
from arneb_amqp.topology.records import QueueRecord, decode_queue
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.expiry import NEVER, ChangedTtl, Ttl, expires_ms

TIMES = st.none() | st.integers(0, 5)
CHANGES = st.lists(st.tuples(st.integers(0, 3), TIMES), max_size=CHANGES_MAX)


def expiry(ttl: Ttl, published_ms: int) -> int:
    return expires_ms(EntryHeader(Origin.AMQP, publish_time_ms=published_ms).pack(), ttl)


@given(TIMES, CHANGES, st.integers(0, 40))
def test_an_entry_has_the_time_to_live_that_applied_when_it_was_published(
    declared: int | None, changes: list[tuple[int, int | None]], published: int
) -> None:
    ttl: Ttl = declared
    at, wanted = 0, declared
    for step, to in changes:
        at += step
        ttl = changed(ttl, to, at, is_empty=False)
        assert current(ttl) == to
        if published >= at:
            wanted = to
    assert expiry(ttl, published) == (NEVER if wanted is None else published + wanted)
    stored = as_stored(ttl, declared)
    assert as_held(stored, declared) == ttl
    record = QueueRecord("/", "q", ttl=stored)
    assert decode_queue(record.encode()) == record


def test_an_empty_queue_keeps_no_earlier_times() -> None:
    ttl = changed(changed(5, 7, 100, is_empty=False), None, 200, is_empty=False)
    assert ttl == ChangedTtl(None, ((100, 5), (200, 7)))
    assert changed(ttl, None, 300, is_empty=True) is None
    assert as_stored(5, 5) is None


def test_too_many_changes_keep_messages_longer_and_never_shorter() -> None:
    ttl: Ttl = 10
    for number in range(CHANGES_MAX + 5):
        ttl = changed(ttl, 20 + number, 100 * (number + 1), is_empty=False)
    assert isinstance(ttl, ChangedTtl)
    assert len(ttl.before) == CHANGES_MAX
    assert expiry(ttl, 0) >= 10
    assert expiry(ttl, 10_000) == 10_000 + 20 + CHANGES_MAX + 4
    full = ChangedTtl(1, ((1, None), *((at, 1) for at in range(2, CHANGES_MAX + 1))))
    assert expiry(changed(full, 2, 99, is_empty=False), 0) == NEVER
