"""Letters: dead letters made together from their common parts, compared with each made by
itself."""

from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.raw_lists import kept_fields, lists, size
from tests.counting import calls_of

from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.router import Router
from arneb_amqp.topology.dead_letter_runs import Letters
from arneb_amqp.topology.dead_letter_turns import Turns
from arneb_amqp.topology.dead_letters import DeadLettering, DeadLetterTarget, Destinations
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, properties_of
from arneb_amqp.wire.cutting import Cut, cut
from arneb_amqp.wire.properties import (
    Properties,
    PropertyFlag,
    decode_properties,
    encode_properties,
)
from arneb_amqp.wire.route import content_start, join_route, shortstr
from arneb_amqp.wire.tables import long, longstr
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.topics.topic import Topic

ROUTE = join_route("x", "k")
TOPICS = {name: cast("Topic", object()) for name in ("dead", "other", "q")}


def entry(properties: bytes, payload: bytes = b"payload") -> bytes:
    head = EntryHeader(Origin.AMQP, hint=len(ROUTE)).pack()
    return head + ROUTE + compose(ChannelId(1), properties, payload)


def dead_lettering(kind: str, key: str | None) -> DeadLettering:
    """To an exchange of that kind, or to none if there is none of that kind."""
    router = Router()
    for name in TOPICS:
        router.add_queue(name)
    if kind != "missing":
        router.declare(Exchange("dlx", kind))
        binding = {"a": longstr("text")} if kind == "headers" else {}
        router.bind(Binding("dlx", "dead", "k", binding))
        router.bind(Binding("dlx", "q", "other", binding))
    return DeadLettering(
        cast("Any", None), router, Destinations(TOPICS.get), lambda: 9_000,
        DeadLetterTarget("q", "dlx", key), Turns(),
    )  # fmt: skip


def letters(made: DeadLettering, reason: Departure) -> tuple[Letters, Admission]:
    admission = Admission()
    return Letters(lambda kind: made._resolve(reason, kind), admission), admission


kinds = st.sampled_from(["direct", "fanout", "headers", "missing"])


@given(
    st.lists(lists(), max_size=6), kinds, st.sampled_from([None, "k"]), st.sampled_from(Departure)
)
def test_letters_made_together_equal_those_made_singly(
    found: list[bytes], kind: str, key: str | None, reason: Departure
) -> None:
    made = dead_lettering(kind, key)
    together, admission = letters(made, reason)
    expected: dict[Topic, list[bytes]] = {}
    for each in found:
        together.put(entry(each))
        alone, by_itself = letters(made, reason)
        alone.put(entry(each))
        for topic, entries in by_itself.close().items():
            expected.setdefault(topic, []).extend(entries)
    assert admission.close() == expected


def edited(parts: Cut) -> bytes:
    """The list without its expiration and the fields that were asked for."""
    outside, at = b"", 0
    for first, stop in parts.spans:
        outside += parts.fields[at:first]
        at = stop
    outside += parts.fields[at:]
    flags = parts.flags & ~PropertyFlag.EXPIRATION
    table = size(outside) if flags & PropertyFlag.HEADERS else b""
    return flags.to_bytes(2, "big") + parts.before + table + parts.after


def decoded_and_edited(found: bytes) -> bytes:
    properties = replace(decode_properties(found), expiration=None)
    if properties.headers is not None:
        left = {name: field for name, field in properties.headers.items() if name != "a"}
        properties = replace(properties, headers=left)
    return encode_properties(properties)


@given(lists(kept_fields))
def test_a_list_edited_in_place_equals_one_decoded_and_encoded(found: bytes) -> None:
    parts = cut(found, {b"\x01a"})
    assert parts is not None, "nothing in it would be changed"
    expiration = shortstr(decode_properties(found).expiration or "")
    assert parts.marks[0] == (expiration if parts.flags & PropertyFlag.EXPIRATION else b"")
    assert edited(parts) == decoded_and_edited(found)


@given(lists())
def test_a_list_is_only_cut_where_decoding_and_encoding_would_not_change_it(found: bytes) -> None:
    parts = cut(found, {b"\x01a"})
    assert parts is None or edited(parts) == decoded_and_edited(found)


def test_messages_that_differ_only_in_what_a_death_keeps_are_not_decoded() -> None:
    def made(number: int) -> bytes:
        headers = {"n": long(number), "who": longstr(f"somebody {number}")}
        return entry(encode_properties(Properties(headers=headers, message_id=f"{number}")))

    together, admission = letters(dead_lettering("direct", None), Departure.REJECTED)
    first, second = (calls_of(lambda at=at: together.put(made(at))) for at in (1, 2))
    assert second < first / 4
    (entries,) = admission.close().values()
    for number, each in enumerate(entries, 1):
        read = decode_properties(properties_of(each, content_start(each)))
        assert read.message_id == f"{number}"
        assert read.headers is not None
        assert read.headers["n"] == long(number)
        assert "x-death" in read.headers


def test_where_headers_decide_each_has_its_own_route() -> None:
    together, admission = letters(dead_lettering("headers", None), Departure.REJECTED)
    for text in ("other", "text", "other"):
        together.put(entry(encode_properties(Properties(headers={"a": longstr(text)}))))
    counts = {topic: len(entries) for topic, entries in admission.close().items()}
    assert counts == {TOPICS["dead"]: 1, TOPICS["q"]: 1}
