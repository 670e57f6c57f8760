"""The consistent hash exchange: stable, divided by weight, and moving no more keys than it must."""

from bisect import bisect_right
from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_amqp.errors import ChannelException
from arneb_amqp.routing.consistent_hash import (
    ConsistentHash,
    ConsistentHashIndex,
    jump,
    seen_by_exchanges,
)
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.router import Router
from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.tables import Field, longstr
from arneb_core.api.encoding.hashing import murmur3_32

TYPE = ConsistentHash()
KEYS = [f"key-{number}" for number in range(4_000)]


def index(*weights: int, **arguments: Field) -> ConsistentHashIndex:
    named = {name.replace("_", "-"): field for name, field in arguments.items()}
    made = TYPE.index(Exchange("x", "x-consistent-hash", arguments=named))
    for number, weight in enumerate(weights):
        made.add(Binding("x", f"q{number}", str(weight)))
    return made


def queue(made: ConsistentHashIndex, key: str, properties: Properties | None = None) -> str:
    ((_, name),) = made.match([key], seen_by_exchanges(properties or Properties()))
    return name


class Plain:
    """The bindings in a list, whose buckets are recounted each time."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []

    def match(self, key: str) -> str:
        ends = list(accumulate(int(each.routing_key) for each in self.bindings))
        bucket = jump(murmur3_32(key.encode()), ends[-1])
        return self.bindings[bisect_right(ends, bucket)].destination


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 99)), max_size=60))
def test_bindings_may_be_added_and_removed_in_any_order(moves: list[tuple[bool, int, int]]) -> None:
    made, plain = index(), Plain()
    for number, (comes, weight, which) in enumerate(moves):
        if comes or not plain.bindings:
            binding = Binding("x", f"q{number}", str(weight))
            made.add(binding)
            plain.bindings.append(binding)
        else:
            made.remove(plain.bindings.pop(which % len(plain.bindings)))
        if plain.bindings:
            for key in KEYS[:20]:
                assert queue(made, key) == plain.match(key)
        else:
            assert list(made.match(["key"], {})) == []


def test_the_places_of_removed_bindings_are_compacted() -> None:
    made = index(*[1] * 100)
    for number in range(95):
        made.remove(Binding("x", f"q{number}", "1"))
    assert len(made._bindings) < 20


def test_adding_and_removing_ten_thousand_bindings_costs_a_logarithm_each() -> None:
    made = index()
    bindings = [Binding("x", f"q{number}", "3") for number in range(10_000)]

    def come_and_go() -> None:
        for binding in bindings:
            made.add(binding)
        for binding in bindings:
            made.remove(binding)

    assert calls_of(come_and_go) < 10_000 * 20


@given(st.integers(0, (1 << 32) - 1), st.integers(1, 60))
def test_one_more_bucket_takes_keys_and_moves_no_others(key: int, buckets: int) -> None:
    before, after = jump(key, buckets), jump(key, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


def test_keys_are_spread_by_weight() -> None:
    counts = Counter(queue(index(1, 3), key) for key in KEYS)
    assert 0.20 < counts["q0"] / len(KEYS) < 0.30


def test_one_more_binding_takes_only_its_share() -> None:
    two, three = index(1, 1), index(1, 1, 1)
    moved = [key for key in KEYS if queue(two, key) != queue(three, key)]
    assert all(queue(three, key) == "q2" for key in moved)
    assert 0.28 < len(moved) / len(KEYS) < 0.39


def test_the_last_binding_gives_back_what_it_took() -> None:
    made, two = index(1, 1, 1), index(1, 1)
    made.remove(Binding("x", "q2", "1"))
    assert [queue(made, key) for key in KEYS] == [queue(two, key) for key in KEYS]


def test_without_bindings_nothing_is_routed() -> None:
    assert list(index().match(["k"], {})) == []


def test_a_header_or_a_property_may_be_hashed() -> None:
    by_header = index(1, 1, 1, 1, hash_header=longstr("h"))
    by_property = index(1, 1, 1, 1, hash_property=longstr("message_id"))
    for number in range(50):
        other = f"other-{number}"
        same = Properties(headers={"h": longstr("same")}, message_id="same")
        assert queue(by_header, other, same) == queue(by_header, "k", same)
        assert queue(by_property, other, same) == queue(by_property, "k", same)
        mixed = Properties(headers={"h": longstr(other)}, message_id=other)
        assert queue(by_header, "k", mixed) == queue(by_property, "k", mixed)


def test_a_client_cannot_pass_a_header_off_as_a_property() -> None:
    forged = Properties(headers={"\0property/message_id": longstr("x")})
    assert seen_by_exchanges(forged) == {}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("€", "The binding key must be an integer: <<226,130,172>>"),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
    ],
)
def test_a_binding_key_is_a_weight(key: str, text: str) -> None:
    with pytest.raises(ChannelException) as caught:
        TYPE.check_binding(Binding("x", "q", key))
    assert caught.value.explanation == text
    TYPE.check_binding(Binding("x", "q", "+7"))


def test_arguments_that_are_ignored() -> None:
    for arguments, text in (
        ({"hash-property": longstr("app_id")}, "Unsupported property: app_id"),
        (
            {"hash-property": longstr("message_id"), "hash-header": longstr("h")},
            "hash-header and hash-property are mutually exclusive",
        ),
    ):
        with pytest.raises(ChannelException) as caught:
            TYPE.check(Exchange("x", "x-consistent-hash", arguments=arguments))
        assert caught.value.explanation == text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, False),
        ({"hash-header": longstr("region")}, True),
        ({"hash-property": longstr("message_id")}, True),
    ],
)
def test_a_route_is_remembered_if_only_the_routing_key_decides(
    arguments: dict[str, Field], *, expected: bool
) -> None:
    router = Router()
    router.declare(Exchange("x", "x-consistent-hash", arguments=arguments))
    router.add_queue("q")
    router.bind(Binding("x", "q", "1"))
    result = router.route("x", "key")
    assert result.queues == ("q",)
    assert result.depends_on_headers is result.depends_on_more is expected
