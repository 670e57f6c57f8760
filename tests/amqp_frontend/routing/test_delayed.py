"""The delayed message exchange: what counts as a delay, and who routes the message and when."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.delayed import DELAY_MS_MAX, delay_ms_of, delayed
from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.routing.router import Router
from arneb_amqp.wire.tables import INTEGER_TYPES, Decimal, Field, FieldType, longstr

LATER = {"x-delay": Field(FieldType.SIGNEDINT, 100)}


def exchange(name: str, kind: str = "direct") -> Exchange:
    return Exchange(name, "x-delayed-message", arguments={"x-delayed-type": longstr(kind)})


@given(st.sampled_from(sorted(INTEGER_TYPES, key=str)), st.integers(-(1 << 40), 1 << 40))
def test_positive_numbers_up_to_a_bound_are_delays(kind: FieldType, number: int) -> None:
    expected = number if 0 < number <= DELAY_MS_MAX else None
    assert delay_ms_of({"x-delay": Field(kind, number)}) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (longstr("250"), 250),
        (longstr("+250"), 250),
        (longstr("-250"), None),
        (longstr(""), None),
        (longstr("2 50"), None),
        (longstr("2_50"), None),
        (longstr("\u0665"), None),
        (longstr("9" * 5000), None),
        (Field(FieldType.DOUBLE, 99.9), 99),
        (Field(FieldType.DOUBLE, float("nan")), None),
        (Field(FieldType.FLOAT, float("inf")), None),
        (Field(FieldType.BOOL, True), None),
        (Field(FieldType.DECIMAL, Decimal(0, 5)), None),
        (Field(FieldType.VOID, None), None),
    ],
)
def test_delays_of_other_types(field: Field, expected: int | None) -> None:
    assert delay_ms_of({"x-delay": field}) == expected


@given(st.integers(1, DELAY_MS_MAX))
def test_nothing_is_delayed_twice(delay_ms: int) -> None:
    headers = delayed({"other": longstr("x")}, delay_ms)
    assert headers["x-delay"].value == -delay_ms
    assert delay_ms_of(headers) is None
    assert headers["other"] == longstr("x")


def test_it_keeps_what_is_delayed_and_routes_everything_else() -> None:
    router = Router()
    router.declare(exchange("e", "topic"))
    router.add_queue("q")
    router.bind(Binding("e", "q", "a.*"))
    assert router.route("e", "a.b", LATER).delayed_by == ("e",)
    assert router.route("e", "a.b", LATER).queues == ()
    assert router.route("e", "x", LATER).delayed_by == ("e",), (
        "bindings are looked up when the message is due"
    )
    assert router.route("e", "a.b").queues == ("q",)
    assert router.route("e", "a.b", delayed(LATER, 100)).queues == ("q",)
    assert router.route("e", "a.b").depends_on_headers


def test_other_exchanges_may_route_to_it() -> None:
    router = Router()
    router.declare(Exchange("front", "fanout"))
    for name in ("e", "f"):
        router.declare(exchange(name))
        router.bind(Binding("front", name, kind=DestinationKind.EXCHANGE))
    router.add_queue("q")
    router.bind(Binding("front", "q"))
    found = router.route("front", "", LATER)
    assert (found.queues, found.delayed_by) == (("q",), ("e", "f"))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-delayed-type": Field(FieldType.SIGNEDINT, 3)},
        {"x-delayed-type": longstr("wibble")},
        {"x-delayed-type": longstr("x-delayed-message")},
    ],
)
def test_it_must_name_another_type(arguments: Any) -> None:
    with pytest.raises(AmqpError):
        Router().declare(Exchange("e", "x-delayed-message", arguments=arguments))


def test_the_other_type_checks_its_own_arguments() -> None:
    router = Router()
    router.declare(exchange("e", "x-consistent-hash"))
    router.add_queue("q")
    with pytest.raises(AmqpError):
        router.bind(Binding("e", "q", "no number"))
