"""Admission documents: one node reads exactly what another wrote about a client."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from arneb_amqp.server.admission.admission_document import (
    BadAdmission,
    decode_admission,
    encode_admission,
)
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.connection.admission import Admission, Terms
from arneb_amqp.wire.tables import boolean, decode_table, encode_table, long, longstr, table

texts = st.text(max_size=20)
ports = st.integers(0, 0xFFFF)
properties = st.dictionaries(
    texts, st.one_of(texts.map(longstr), st.booleans().map(boolean),
                     st.integers(-9, 9).map(long), st.just(table({"in": longstr("side")}))),
    max_size=4,
)  # fmt: skip
admissions = st.builds(
    Admission, texts, st.none() | texts,
    st.builds(Terms, properties, texts, ports, st.integers(0, 0xFFFF_FFFF), ports), texts,
)  # fmt: skip
remotes = st.builds(
    Remote, texts, st.booleans(), st.none() | st.binary(max_size=30), ports,
    st.tuples(texts, ports), st.booleans(), st.tuples(texts, texts),
)  # fmt: skip


@given(admissions, remotes)
def test_what_is_written_is_read(admission: Admission, remote: Remote) -> None:
    assert decode_admission(encode_admission(admission, remote)) == (admission, remote)


@given(admissions, remotes, st.data())
def test_a_field_that_is_missing_or_of_another_type_is_named(
    admission: Admission, remote: Remote, data: st.DataObject
) -> None:
    fields = dict(decode_table(encode_admission(admission, remote)))
    name = data.draw(st.sampled_from(sorted(fields)))
    if data.draw(st.booleans()):
        del fields[name]
    else:
        fields[name] = table({}) if name != "client_properties" else longstr("x")
    with pytest.raises(BadAdmission, match=f"^{name}: expected"):
        decode_admission(encode_table(fields))


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", -1), ("port", 65536), ("channel_max", 65536), ("heartbeat_s", -1),
     ("frame_bytes_max", 1 << 32)],
)  # fmt: skip
def test_impossible_numbers_are_refused(name: str, value: int) -> None:
    terms = Terms({}, "PLAIN", 1, 2, 3)
    fields = dict(decode_table(encode_admission(Admission("u", None, terms, "/"), Remote())))
    fields[name] = long(value)
    with pytest.raises(BadAdmission, match=f"{name}: expected 0 to"):
        decode_admission(encode_table(fields))


@given(admissions, remotes, st.data())
def test_mutated_bytes_are_read_or_refused(
    admission: Admission, remote: Remote, data: st.DataObject
) -> None:
    raw = bytearray(encode_admission(admission, remote))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for each in (bytes(raw), bytes(raw[:cut])):
        try:
            found, where = decode_admission(each)
        except BadAdmission:
            continue
        assert isinstance(found, Admission)
        assert isinstance(where, Remote)


def test_a_secret_is_not_shown() -> None:
    assert "hidden" not in repr(Admission("u", "hidden", Terms({}, "", 0, 0, 0), "/"))
