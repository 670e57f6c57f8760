"""Letters: dead letters made from what they have in common, against each made by itself."""

from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.router import Router
from arneb_amqp.topology.dead_letters import DeadLettering, DeadLetterTarget, Destinations
from arneb_amqp.topology.letters import Letters
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, properties_of
from arneb_amqp.wire.cutting import cut
from arneb_amqp.wire.properties import (
    Properties,
    PropertyFlag,
    decode_properties,
    encode_properties,
)
from arneb_amqp.wire.route import content_start, join_route, shortstr
from arneb_amqp.wire.tables import array, encode_table, long, longstr, table, timestamp
from arneb_core.api.entry import EntryHeader, Origin
from arneb_core.api.limits import Departure
from arneb_core.api.topics import Topic

ROUTE = join_route("x", "k")
TOPICS = {name: cast("Topic", object()) for name in ("dead", "other", "q")}


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
values = st.sampled_from(
    [
        b"S" + size(b"text"),
        b"S" + size(b""),
        b"x" + size(b"\xff"),
        b"t\x00",
        b"t\x01",
        b"t\x07",
        b"l" + bytes(8),
        b"L" + bytes(8),
        b"I\x00\x00\x00\x07",
        b"f\x7f\xa0\x00\x01",
        b"f" + bytes(4),
        b"d\x7f\xf4" + bytes(6),
        b"D\x01" + bytes(4),
        b"V",
        b"T" + bytes(8),
        b"u\x00\x01",
        b"A" + size(b"t\x02"),
        b"F" + size(b"\x01aV"),
        b"F" + size(b""),
    ]
)
fields = st.one_of(
    st.builds(
        lambda name, value: shortstr(name) + value,
        st.sampled_from(["a", "b", "\udcff", "", "a" * 255, "x-delay"]),
        values,
    ),
    ours,
)
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


@st.composite
def lists(draw: st.DrawFn) -> bytes:
    """Property lists whose headers are as clients may send them, and not only as we would."""
    properties = draw(plain)
    whole = encode_properties(replace(properties, headers={}))
    raw = b"".join(draw(st.lists(fields, max_size=4)))
    if not raw and draw(st.booleans()):
        return encode_properties(properties)
    at = 2
    for name in (properties.content_type, properties.content_encoding):
        at += 0 if name is None else len(shortstr(name))
    flags = bytes((whole[0], whole[1] | draw(st.integers(0, 3))))
    return flags + whole[2:at] + size(raw) + whole[at + 4 :]


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
        DeadLetterTarget("q", "dlx", key),
    )  # fmt: skip


def letters(made: DeadLettering, reason: Departure) -> tuple[Letters, Admission]:
    admission = Admission()
    return Letters(lambda kind: made._resolve(reason, kind), admission), admission


kinds = st.sampled_from(["direct", "fanout", "headers", "missing"])


@given(
    st.lists(lists(), max_size=6), kinds, st.sampled_from([None, "k"]), st.sampled_from(Departure)
)
def test_together_they_are_what_each_would_be_by_itself(
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


@given(lists())
def test_what_is_cut_comes_out_as_decoding_and_encoding_it_writes_it(found: bytes) -> None:
    parts = cut(found, {b"\x01a"})
    if parts is None or parts.spans:
        return
    assert (
        parts.marks[0] == shortstr(decode_properties(found).expiration or "")[: len(parts.marks[0])]
    )
    again = replace(decode_properties(found), expiration=None)
    if again.headers is not None:
        flags = (parts.flags & ~PropertyFlag.EXPIRATION).to_bytes(2, "big")
        put = flags + parts.before + size(parts.fields) + parts.after
        assert put == encode_properties(again)


def test_messages_that_differ_in_what_a_death_leaves_alone_are_not_decoded() -> None:
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


def test_where_headers_decide_each_goes_its_own_way() -> None:
    together, admission = letters(dead_lettering("headers", None), Departure.REJECTED)
    for text in ("other", "text", "other"):
        together.put(entry(encode_properties(Properties(headers={"a": longstr(text)}))))
    counts = {topic: len(entries) for topic, entries in admission.close().items()}
    assert counts == {TOPICS["dead"]: 1, TOPICS["q"]: 1}
