"""Entries made from rows: what is remembered of earlier rows changes nothing."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.codec import AmqpCodec
from arneb_amqp.topology.row_entries import EntryMaker

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["", "amq.topic"]),
        st.sampled_from([b"", b"a", b"orders.eu"]),
        st.binary(max_size=4),
        st.sampled_from([-1, 0, 1]),
        st.sampled_from([0, 5, 1_000]),
        st.sampled_from([0, 0, 99]),
    ),
    max_size=20,
)
PROPERTIES = ({"x": "1"}, {"amqp.expiration": "5", "y": 2})


def made(maker: EntryMaker, row: tuple[str, bytes, bytes, int, int, int]) -> bytes:
    exchange, key, value, properties, event_ms, deliver_ms = row
    kind = maker.kind(properties, event_ms, 0, null=False)
    return maker.entry(exchange, key, value, kind, deliver_ms)


@given(ROWS)
def test_an_entry_is_the_same_whatever_was_made_before(
    rows: list[tuple[str, bytes, bytes, int, int, int]],
) -> None:
    maker = EntryMaker(PROPERTIES)
    for row in [*rows, *rows]:
        entry = made(maker, row)
        assert entry == made(EntryMaker(PROPERTIES), row)
        (message,) = AmqpCodec().decode(entry)
        assert (message.key or b"", message.value) == (row[1], row[2])
