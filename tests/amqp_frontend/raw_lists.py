"""Strategies for property lists with headers encoded as clients may, not only as we would."""

from dataclasses import replace

from hypothesis import strategies as st

from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.route import shortstr
from arneb_amqp.wire.tables import array, encode_table, long, longstr, table, timestamp


def size(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


death = st.fixed_dictionaries(
    {"queue": st.sampled_from(["q", "dead"]), "reason": st.sampled_from(["expired", "rejected"])}
)
deaths = st.lists(death, max_size=2).map(
    lambda found: array(
        [
            table(
                {"count": long(2), "time": timestamp(5)} | {k: longstr(v) for k, v in each.items()}
            )
            for each in found
        ]
    )
)
ours = st.one_of(
    deaths.map(lambda field: {"x-death": field}),
    st.sampled_from(
        [
            {"CC": array([longstr("other")])},
            {"x-first-death-queue": longstr("dead")},
            {"x-last-death-reason": long(4)},
            {"x-death": longstr("no list")},
        ]
    ),
).map(encode_table)
KEPT = [
    b"S" + size(b"text"),
    b"S" + size(b""),
    b"x" + size(b"\xff"),
    b"t\x00",
    b"t\x01",
    b"l" + bytes(8),
    b"I\x00\x00\x00\x07",
    b"d\x7f\xf4" + bytes(6),
    b"D\x01" + bytes(4),
    b"V",
    b"T" + bytes(8),
    b"u\x00\x01",
]
"""Values that decoding and encoding certainly leave as they are."""

OTHERS = [
    b"t\x07",
    b"L" + bytes(8),
    b"f\x7f\xa0\x00\x01",
    b"f" + bytes(4),
    b"A" + size(b"t\x02"),
    b"F" + size(b"\x01aV"),
    b"F" + size(b""),
]

NAMES = ["a", "b", "\udcff", "", "a" * 255, "x-delay"]


def fields_of(values: list[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda name, value: shortstr(name) + value, st.sampled_from(NAMES), st.sampled_from(values)
    )


fields = st.one_of(fields_of(KEPT + OTHERS), ours)
kept_fields = st.lists(fields_of(KEPT), max_size=4, unique_by=lambda it: it[: 1 + it[0]])
"""Fields of different names that decoding and encoding certainly leave as they are."""
plain = st.builds(
    Properties,
    content_type=st.sampled_from([None, "text/plain"]),
    content_encoding=st.sampled_from([None, "\udcfe"]),
    delivery_mode=st.sampled_from([None, 2]),
    priority=st.sampled_from([None, 0]),
    correlation_id=st.sampled_from([None, "", "c"]),
    reply_to=st.sampled_from([None, "r"]),
    expiration=st.sampled_from([None, "", "60", "70"]),
    message_id=st.sampled_from([None, "m"]),
    timestamp=st.sampled_from([None, 7]),
    app_id=st.sampled_from([None, "app"]),
)


any_fields = st.lists(fields, max_size=4)


@st.composite
def lists(draw: st.DrawFn, headers: st.SearchStrategy[list[bytes]] = any_fields) -> bytes:
    """Property lists with headers encoded as clients may send them, not only as we would."""
    properties = draw(plain)
    whole = encode_properties(replace(properties, headers={}))
    raw = b"".join(draw(headers))
    if not raw and draw(st.booleans()):
        return encode_properties(properties)
    at = 2
    for name in (properties.content_type, properties.content_encoding):
        at += 0 if name is None else len(shortstr(name))
    flags = bytes((whole[0], whole[1] | draw(st.integers(0, 3))))
    return flags + whole[2:at] + size(raw) + whole[at + 4 :]
