"""The headers exchange: RabbitMQ 3.10's rules, and its texts from the goldens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.errors import ChannelException
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.headers import HeadersType
from arneb_amqp.wire.tables import Field, FieldType, longstr, signedint

VOID = Field(FieldType.VOID, None)
TYPE = HeadersType()


def matches(arguments: dict[str, Field], headers: dict[str, Field]) -> bool:
    index = TYPE.index(Exchange("x", "headers"))
    index.add(Binding("x", "q", arguments=arguments))
    return bool(list(index.match([""], headers)))


def mode(name: str) -> Field:
    return longstr(name)


A1, B2 = signedint(1), signedint(2)


@pytest.mark.parametrize(
    ("arguments", "headers", "fit"),
    [
        ({}, {}, True),
        ({}, {"a": A1}, True),
        ({"a": A1}, {"a": A1}, True),
        ({"a": A1}, {"a": B2}, False),
        ({"a": A1}, {}, False),
        ({"a": A1, "b": B2}, {"a": A1}, False),
        ({"a": A1, "b": B2, "x-match": mode("all")}, {"a": A1, "b": B2, "c": A1}, True),
        ({"a": A1, "b": B2, "x-match": mode("any")}, {"a": A1}, True),
        ({"a": A1, "x-match": mode("any")}, {"a": B2}, False),
        ({"x-match": mode("any")}, {"a": A1}, False),
        ({"x-match": mode("all")}, {}, True),
        ({"a": VOID}, {"a": B2}, True),
        ({"a": VOID}, {}, False),
        ({"x-a": A1}, {}, True),
        ({"x-a": A1, "x-match": mode("any")}, {"x-a": A1}, False),
        ({"x-a": A1, "x-match": mode("any-with-x")}, {"x-a": A1}, True),
        ({"x-a": A1, "x-match": mode("all-with-x")}, {}, False),
        ({"x-a": A1, "x-match": mode("all-with-x")}, {"x-a": A1}, True),
        ({"a": A1}, {"a": Field(FieldType.LONG, 1)}, True),
        ({"a": A1}, {"a": Field(FieldType.DOUBLE, 1.0)}, True),
        ({"a": A1}, {"a": Field(FieldType.BOOL, True)}, False),
        ({"a": longstr("1")}, {"a": A1}, False),
        ({"a": longstr("b")}, {"a": Field(FieldType.BINARY, b"b")}, True),
    ],
)
def test_matching(arguments: dict[str, Field], headers: dict[str, Field], fit: bool) -> None:
    assert matches(arguments, headers) == fit


values = st.sampled_from([A1, B2, longstr("1"), VOID])
small = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, max_size=3)


@given(small, small)
def test_all_and_any_are_what_they_say(
    arguments: dict[str, Field], headers: dict[str, Field]
) -> None:
    each = [matches({name: field}, headers) for name, field in arguments.items()]
    assert matches({**arguments, "x-match": mode("all")}, headers) == all(each)
    assert matches({**arguments, "x-match": mode("any")}, headers) == any(each)


@pytest.mark.parametrize("name", ["all", "any", "all-with-x", "any-with-x"])
def test_the_four_modes_are_accepted(name: str) -> None:
    TYPE.check_binding(Binding("x", "q", arguments={"x-match": mode(name)}))
    TYPE.check_binding(Binding("x", "q"))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (
            mode("wrong"),
            'Invalid x-match field value <<"wrong">>; expected all, any, all-with-x, or any-with-x',
        ),
        (signedint(5), "Invalid x-match field type signedint (value 5); expected longstr"),
    ],
    ids=["headers_bad_xmatch", "headers_xmatch_type"],
)
def test_other_modes_are_refused_as_rabbitmq_does(field: Field, text: str) -> None:
    """The goldens of the same names, from RabbitMQ 3.10.8."""
    with pytest.raises(ChannelException) as caught:
        TYPE.check_binding(Binding("x", "q", arguments={"x-match": field}))
    assert caught.value.reply_text == f"PRECONDITION_FAILED - {text}"


def test_removed_bindings_match_no_more() -> None:
    index = TYPE.index(Exchange("x", "headers"))
    one, two = Binding("x", "q", arguments={"a": A1}), Binding("x", "q", arguments={"b": B2})
    index.add(one)
    index.add(two)
    index.remove(one)
    assert not list(index.match([""], {"a": A1}))
    assert list(index.match([""], {"b": B2}))
