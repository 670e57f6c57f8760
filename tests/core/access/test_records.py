"""Records: what is read back is what was written, and unknown bytes are refused."""

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.access.passwords import HashingAlgorithm, PasswordHash
from arneb_core.access.records import (
    KINDS,
    OperatorPolicy,
    Permission,
    Record,
    User,
    Vhost,
    decode,
    encode,
    row_key,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
LIMITS = st.dictionaries(st.sampled_from(["max-connections", "max-queues"]), st.integers())
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "tags": st.lists(TEXTS, max_size=3).map(tuple),
    "limits": LIMITS,
    "metadata": OBJECTS,
    "definition": OBJECTS,
    "leaving": st.booleans(),
    "value": VALUES,
    "priority": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "password": st.builds(PasswordHash, TEXTS, st.sampled_from(HashingAlgorithm)),
}


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(KINDS))
    return kind(**{each.name: draw(FIELDS.get(each.name, NAMES)) for each in fields(kind)})


@given(records())
def test_a_record_read_back_is_the_one_written(record: Record) -> None:
    assert decode(row_key(type(record), record.key), encode(record)) == record


@given(records(), records())
def test_two_records_have_one_row_only_if_they_have_one_name(one: Record, other: Record) -> None:
    same = row_key(type(one), one.key) == row_key(type(other), other.key)
    assert same is (type(one) is type(other) and one.key == other.key)


def test_an_operators_policy_is_another_one_than_a_policy_of_that_name() -> None:
    assert row_key(OperatorPolicy, ("/", "p")) == "access/operator-policy/%2F/p"


def changed(**others: object) -> bytes:
    document = json.loads(encode(User("u")))
    return json.dumps({**document, **others}).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        changed(v=2),
        changed(more=1),
        changed(tags="administrator"),
        changed(limits={"max-channels": "1"}),
        changed(limits={"max-channels": True}),
        changed(password=["rot13", ""]),
        changed(password=1),
        changed(password=[1, 2]),
        changed(name="other"),
        encode(Vhost("u", "public/u")),
    ],
)
def test_what_cannot_be_understood_whole_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        decode("access/user/u", value)


def test_a_row_of_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="catalogue"):
        decode("access/role/u", encode(User("u")))


def test_a_permission_is_named_by_user_and_vhost() -> None:
    assert Permission("u", "/", "", "", "").key == ("u", "/")
