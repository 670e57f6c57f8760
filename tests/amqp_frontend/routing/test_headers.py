"""The headers exchange: RabbitMQ 3.10's rules, and its error texts from the golden files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_amqp.errors import ChannelException
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.headers import X_MATCH, HeadersIndex, HeadersType
from arneb_amqp.wire.tables import Field, FieldType, array, longstr, signedint, table

VOID = Field(FieldType.VOID, None)
TYPE = HeadersType()


def matches(arguments: dict[str, Field], headers: dict[str, Field]) -> bool:
    index = TYPE.index(Exchange("x", "headers"))
    index.add(Binding("x", "q", arguments=arguments))
    return any(index.match([""], headers))


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
def test_all_and_any_do_what_their_names_say(
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
    """The golden files of the same names, from RabbitMQ 3.10.8."""
    with pytest.raises(ChannelException) as caught:
        TYPE.check_binding(Binding("x", "q", arguments={"x-match": field}))
    assert caught.value.reply_text == f"PRECONDITION_FAILED - {text}"


def test_removed_bindings_no_longer_match() -> None:
    index = TYPE.index(Exchange("x", "headers"))
    one, two = Binding("x", "q", arguments={"a": A1}), Binding("x", "q", arguments={"b": B2})
    index.add(one)
    index.add(two)
    index.remove(one)
    assert not list(index.match([""], {"a": A1}))
    assert list(index.match([""], {"b": B2}))


values = st.sampled_from(
    [
        A1,
        B2,
        VOID,
        Field(FieldType.DOUBLE, 1.0),
        Field(FieldType.DOUBLE, float("nan")),
        Field(FieldType.BOOL, True),
        longstr("1"),
        table({"a": A1}),
        table({"a": B2}),
        array([A1]),
        array([table({"a": A1})]),
    ]
)
tables = st.dictionaries(st.sampled_from(["a", "b", "c", "x-d"]), values)
modes = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def fits(arguments: dict[str, Field], headers: dict[str, Field]) -> bool:
    """RabbitMQ's rules, one header after the other."""
    mode = arguments[X_MATCH].text if X_MATCH in arguments else "all"
    asked = {
        name: field
        for name, field in arguments.items()
        if name != X_MATCH and (mode.endswith("with-x") or not name.startswith("x-"))
    }

    def one(name: str, field: Field) -> bool:
        if name not in headers:
            return False
        got = headers[name].value
        alike = isinstance(got, bool) == isinstance(field.value, bool)
        return field.type is FieldType.VOID or (alike and got == field.value)

    each = [one(name, field) for name, field in asked.items()]
    return any(each) if mode.startswith("any") else all(each)


@given(st.lists(st.tuples(tables, modes), max_size=12), tables, st.data())
def test_an_index_finds_the_same_as_the_definition(
    patterns: list[tuple[dict[str, Field], str | None]],
    headers: dict[str, Field],
    data: st.DataObject,
) -> None:
    index = HeadersIndex()
    bindings = []
    for at, (arguments, how) in enumerate(patterns):
        named = arguments if how is None else {**arguments, X_MATCH: longstr(how)}
        bindings.append(Binding("x", f"q{at}", arguments=named))
        index.add(bindings[-1])
    kept = [binding for binding in bindings if data.draw(st.booleans())]
    for binding in bindings:
        if binding not in kept:
            index.remove(binding)
    found = [target for target in index.match([""], headers) if target is not None]
    expected = [each.target for each in kept if fits(dict(each.arguments), headers)]
    assert sorted(name for _, name in found) == sorted(name for _, name in expected)
    for binding in kept:
        index.remove(binding)
    assert not (index._patterns or index._by_key or index._always)


def test_ten_thousand_bindings_cost_only_as_much_as_those_that_match() -> None:
    index = HeadersIndex()
    for at in range(10_000):
        asked = {"kind": longstr("order"), "number": signedint(at), "x-match": mode("all")}
        index.add(Binding("x", f"q{at}", arguments=asked))
        asked = {"number": signedint(at), "place": signedint(-at), "x-match": mode("any")}
        index.add(Binding("x", f"r{at}", arguments=asked))
    headers = {"kind": longstr("order"), "number": signedint(77), "place": A1}
    found: list[object] = []
    calls = calls_of(lambda: found.extend(index.match([""], headers)))
    assert [name for _, name in filter(None, found)] == ["q77", "r77"]  # type: ignore[misc]
    assert calls < 100


def test_a_long_search_pauses() -> None:
    index = HeadersIndex()
    for at in range(5_000):
        asked = {"a": A1, f"other{at}": B2}
        index.add(Binding("x", f"q{at}", arguments={**asked, f"more{at}": B2}))
        index.add(Binding("x", f"r{at}", arguments={"a": A1, f"none{at}": B2, "b": A1}))
    headers = {"a": A1, "b": A1, **{f"other{at}": B2 for at in range(5_000)}}
    assert list(index.match([""], headers)).count(None) >= 15
