"""Strategies for field tables, properties and short strings as clients may send them."""

from hypothesis import strategies as st

from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.tables import Decimal, Field, FieldType

RANGES = {
    FieldType.BYTE: (-(1 << 7), (1 << 7) - 1),
    FieldType.UNSIGNEDBYTE: (0, (1 << 8) - 1),
    FieldType.SHORT: (-(1 << 15), (1 << 15) - 1),
    FieldType.UNSIGNEDSHORT: (0, (1 << 16) - 1),
    FieldType.SIGNEDINT: (-(1 << 31), (1 << 31) - 1),
    FieldType.UNSIGNEDINT: (0, (1 << 32) - 1),
    FieldType.LONG: (-(1 << 63), (1 << 63) - 1),
    FieldType.TIMESTAMP: (0, (1 << 64) - 1),
}


def octets_as_text(size_max: int) -> st.SearchStrategy[str]:
    """Text decoded from arbitrary octets: mostly ordinary text, sometimes with lone surrogates."""
    raw = st.one_of(st.text(max_size=size_max // 4).map(str.encode), st.binary(max_size=size_max))
    return raw.map(lambda octets: octets.decode("utf-8", "surrogateescape"))


short_texts = octets_as_text(40)
names = st.one_of(
    st.sampled_from(["x-match", "CC", "BCC", "amqp.priority", "retries", "x", ""]), short_texts
)


def _integers(kind: FieldType) -> st.SearchStrategy[Field]:
    return st.integers(*RANGES[kind]).map(lambda value: Field(kind, value))


scalars = st.one_of(
    *map(_integers, RANGES),
    st.binary(max_size=30).map(lambda value: Field(FieldType.LONGSTR, value)),
    st.text(max_size=20).map(lambda value: Field(FieldType.LONGSTR, value.encode())),
    st.binary(max_size=30).map(lambda value: Field(FieldType.BINARY, value)),
    st.booleans().map(lambda value: Field(FieldType.BOOL, value)),
    st.floats(width=32, allow_nan=False).map(lambda value: Field(FieldType.FLOAT, value)),
    st.floats(allow_nan=False).map(lambda value: Field(FieldType.DOUBLE, value)),
    st.builds(Decimal, st.integers(0, 255), st.integers(0, (1 << 32) - 1)).map(
        lambda value: Field(FieldType.DECIMAL, value)
    ),
    st.just(Field(FieldType.VOID, None)),
)

fields = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda value: Field(FieldType.ARRAY, tuple(value))),
        st.dictionaries(short_texts, inner, max_size=3).map(
            lambda value: Field(FieldType.TABLE, value)
        ),
    ),
    max_leaves=8,
)

tables = st.dictionaries(names, fields, max_size=4)

properties = st.builds(
    Properties,
    content_type=st.none() | short_texts,
    content_encoding=st.none() | short_texts,
    headers=st.none() | tables,
    delivery_mode=st.none() | st.sampled_from([1, 2]) | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | short_texts,
    reply_to=st.none() | short_texts,
    expiration=st.none() | short_texts | st.integers(0, 10**12).map(str),
    message_id=st.none() | short_texts,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=st.none() | short_texts,
    user_id=st.none() | short_texts,
    app_id=st.none() | short_texts,
    cluster_id=st.none() | short_texts,
)
