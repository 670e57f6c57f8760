"""Prepared rows: what is stored of them, and the time at which they are published."""

from hypothesis import given
from hypothesis import strategies as st

from arneb.data.prepared import Destination, Prepared, stamped
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin, read_header

NOW_MS = 1_767_225_600_000


@given(
    st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 5), st.integers(0, 5)), max_size=8)
    | st.lists(st.tuples(st.binary(min_size=2, max_size=2), st.just(0), st.just(0)), max_size=8)
)
def test_entries_are_restored_with_the_time_of_their_commit(
    rows: list[tuple[bytes, int, int]],
) -> None:
    entries = [
        EntryHeader(Origin.AMQP, deliver_at_ms=due, expires_at_ms=lives).pack() + body
        for body, due, lives in rows
    ]
    expires = any(lives for _, _, lives in rows)
    delays = any(due for _, due, _ in rows)
    going = [index % 2 for index in range(len(entries))]
    ways = [Destination(topic="a"), Destination(None, "/", "x", "key", ("b",), "00ff")]
    prepared = Prepared(len(entries), entries, going, ways, expires, delays)
    found = stamped(prepared, NOW_MS)
    assert (found.rows, found.going, found.destinations) == (len(entries), going, ways)
    assert (found.expires, found.delays) == (expires, delays)
    assert len(found.entries) == len(entries)
    for entry, (body, due, lives) in zip(found.entries, rows, strict=True):
        header = read_header(entry)
        assert entry[HEADER_BYTES:] == body
        assert header.publish_time_ms == NOW_MS
        assert header.deliver_at_ms == due
        assert header.expires_at_ms == (lives and NOW_MS + lives)
