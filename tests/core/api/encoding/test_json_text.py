"""JSON from outside: read or refused, never anything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.encoding.json_text import (
    DIGITS_MAX,
    NESTED_MAX,
    InvalidJson,
    parse_json,
    parse_own_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(VALUES, st.booleans())
def test_what_json_can_say_is_read(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_json(text) == parse_json(text.encode()) == value


PIECES = st.sampled_from([*'[]{}",: ', '"a"', '"b":', "1", "[1,", "{}", "[]", "null"])


@given(VALUES.map(json.dumps) | st.lists(PIECES).map("".join), st.sampled_from(["", "\n "]))
def test_a_long_text_that_is_read_part_by_part_says_the_same(text: str, space: str) -> None:
    text = space + text.replace(",", f"{space},{space}") + space
    try:
        at_once: object = json.loads(text)
    except ValueError:
        at_once = InvalidJson
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arneb_core.api.encoding.json_text.WHOLE_CHARACTERS_MAX", 0)
        try:
            by_parts: object = parse_json(text)
        except InvalidJson:
            by_parts = InvalidJson
    assert by_parts == at_once


def test_others_have_their_chance_while_a_long_list_is_read() -> None:
    """The reader of the standard library lets no other thread run before it is through."""
    reads = 0

    class Decoder(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[object, int]:
            nonlocal reads
            reads += 1
            return super().raw_decode(s, idx)

    many = [{"name": "q" * 100}] * 3_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arneb_core.api.encoding.json_text.DECODER", Decoder())
        patch.setattr("arneb_core.api.encoding.json_text.OWN", Decoder())
        assert parse_json(json.dumps({"queues": many})) == {"queues": many}
        assert reads >= 3_000
        assert parse_json(json.dumps(many)) == many
        assert reads >= 6_000
        assert parse_own_json(json.dumps(many).encode()) == many
    assert reads >= 9_000


@given(st.binary() | st.text(alphabet='[]{}",:\\u0d8c1eE+-. nulltrfasIN') | st.text())
def test_whatever_is_read_can_be_shown(data: bytes | str) -> None:
    try:
        value = parse_json(data)
    except InvalidJson as error:
        str(error).encode()
    else:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, '{"a":' * 100_000, "1" * 5000, "-" + "1" * (DIGITS_MAX + 1), "1e999",
        "-1e999", "NaN", "Infinity", '"\\ud800"', '{"\\udfff": 1}', '[{"a": ["\\ud800x"]}]', "",
        "\ud800", "[" * 101 + '"' + '\\"' * 500_000,
    ],
    ids=lambda text: ascii(text[:12]),
)  # fmt: skip
def test_what_no_other_reader_would_take_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson, match="expected"):
        parse_json(text)


def test_brackets_count_where_they_are_brackets() -> None:
    value: object = "[" * 1000 + '"\\'
    for _ in range(NESTED_MAX):
        value = [value]
    assert parse_json(json.dumps(value)) == value
    assert parse_json("[" + "[]," * 1000 + "{}]") == [[]] * 1000 + [{}]
    with pytest.raises(InvalidJson, match="brackets"):
        parse_json(json.dumps([value]))
    with pytest.raises(InvalidJson, match="expected JSON"):
        parse_json(json.dumps([1]).encode("utf-16"))


def test_two_halves_of_a_character_are_one() -> None:
    assert parse_json('"\\ud83d\\udc07"') == "\U0001f407"
