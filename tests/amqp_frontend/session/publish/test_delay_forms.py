"""Delayed messages that are stored by their form, exactly as those whose properties are decoded."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.routing.delayed import delay_ms_of
from arneb_amqp.routing.reply_to import REPLY_TO, ReplyTo
from arneb_amqp.routing.router import RouteResult
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.session.publish.delay_forms import FORMS_MAX, DelayForms
from arneb_amqp.session.publish.delaying import delayed_entry
from arneb_amqp.traffic import ExchangeTraffic
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import Field, FieldType, longstr, signedint

NOW_MS = 1_700_000_000_123
KEPT = RouteResult((), depends_on_headers=True, delayed_by=("e",))
CHANNEL = ChannelId(1)

delays = st.one_of(
    st.integers(1, (1 << 31) - 1).map(signedint),
    st.integers(1, (1 << 32) - 1).map(lambda each: Field(FieldType.LONG, each)),
    st.integers(1, 5).map(lambda each: longstr(str(each))),
)
headers = st.fixed_dictionaries(
    {"x-delay": delays},
    optional={
        # A string that looks like the field but is none.
        "a": st.just(longstr("\x07x-delayIabcd")),
        "z": st.sampled_from([longstr("\x07x-delayIabcd"), signedint(7)]),
    },
)
messages = st.lists(
    st.builds(
        Properties,
        headers=headers,
        delivery_mode=st.sampled_from([None, 2]),
        message_id=st.sampled_from([None, "a", "b"]),
        reply_to=st.sampled_from([None, None, "answers", REPLY_TO]),
    ).flatmap(lambda each: st.tuples(st.just(each), st.sampled_from([b"", b"x", b"payload"]))),
    max_size=30,
)


def route(key: str = "k") -> CachedRoute:
    return CachedRoute("e", key, join_route("e", key), (), True, 5, ExchangeTraffic())


@given(messages, st.booleans())
def test_they_are_stored_as_if_they_were_decoded(
    published: list[tuple[Properties, bytes]], persistent: bool
) -> None:
    forms, by, answers = DelayForms(), route(), ReplyTo()
    answers.begin("token", "tag")
    head = by.head(NOW_MS, persistent=persistent)
    bodies = [
        compose(CHANNEL, encode_properties(properties), payload)
        for properties, payload in published
    ]
    at = 0
    while at < len(bodies):
        entries = forms.entries(by, bodies, at, at + 7, head)
        for body, entry in zip(bodies[at:], entries, strict=False):
            assert entry == the_long_way(by, body, answers, persistent=persistent)
            assert forms.exchanges == ("e",)
        at += len(entries)
        if not entries:
            properties = decode_properties(properties_of(bodies[at]))
            assert delay_ms_of(properties.headers or {})
            forms.learn(by, KEPT, properties, bodies[at])
            at += 1


def the_long_way(by: CachedRoute, body: bytes, answers: ReplyTo, *, persistent: bool) -> bytes:
    properties = decode_properties(properties_of(body))
    return delayed_entry(by, properties, body, answers, NOW_MS, persistent=persistent, priority=0)


def body_of(delay: Field, payload: bytes = b"x", **more: Field) -> bytes:
    return compose(
        CHANNEL, encode_properties(Properties(headers={"x-delay": delay, **more})), payload
    )


def learned(by: CachedRoute, body: bytes, result: RouteResult = KEPT) -> DelayForms:
    forms = DelayForms()
    forms.learn(by, result, decode_properties(properties_of(body)), body)
    return forms


def test_after_the_first_one_the_others_are_not_decoded() -> None:
    by = route()
    forms = learned(by, body_of(signedint(5)))
    bodies = [body_of(signedint(each)) for each in (1, 70_000, (1 << 31) - 1, 0, 9)]
    entries = forms.entries(by, bodies, 0, 9, by.head(NOW_MS, persistent=True))
    assert len(entries) == 3, "the run ends before the message without a delay"
    assert [int.from_bytes(each[16:24]) - NOW_MS for each in entries] == [1, 70_000, (1 << 31) - 1]


def test_a_form_holds_for_one_route_at_one_moment() -> None:
    by = route()
    body = body_of(signedint(5))
    head = by.head(NOW_MS, persistent=True)
    assert learned(by, body).entries(by, [body], 0, 1, head)
    assert not learned(by, body).entries(route(), [body], 0, 1, head), "the topology has changed"


def test_what_depends_on_anything_else_never_has_a_form() -> None:
    by = route()
    body = body_of(signedint(5))
    head = by.head(NOW_MS, persistent=True)
    for result in (
        RouteResult(("q",), depends_on_headers=True, delayed_by=("e",)),
        RouteResult((), depends_on_headers=True, delayed_by=("e",), depends_on_more=True),
    ):
        assert not learned(by, body, result).entries(by, [body], 0, 1, head)


def test_the_number_of_forms_is_bounded() -> None:
    by, forms = route(), DelayForms()
    for size in range(3 * FORMS_MAX):
        body = body_of(signedint(5), bytes(size))
        forms.learn(by, KEPT, decode_properties(properties_of(body)), body)
        assert len(forms._forms) <= FORMS_MAX


def test_values_that_are_rewritten_when_stored_are_rewritten_by_the_form_too() -> None:
    """A boolean written as 2 becomes 1 when it is decoded and encoded. Here it comes after the
    delay."""
    by, answers = route(), ReplyTo()
    odd = [
        body_of(signedint(delay), payload, b=Field(FieldType.BOOL, True)).replace(
            b"\x01bt\x01", b"\x01bt\x02"
        )
        for delay, payload in [(5, b"x"), (7, b"y"), (9, b"z")]
    ]
    assert b"\x01bt\x02" in odd[0]
    forms = learned(by, odd[0])
    entries = forms.entries(by, odd, 0, 9, by.head(NOW_MS, persistent=True))
    expected = [the_long_way(by, body, answers, persistent=True) for body in odd]
    assert entries == expected
    assert b"\x01bt\x01" in entries[0]


def test_messages_of_alternating_forms_each_use_their_own() -> None:
    by, answers = route(), ReplyTo()
    bodies = [
        body_of(signedint(each), b"x" * (each % 2 + 1), n=signedint(7)) for each in range(1, 9)
    ]
    forms = learned(by, bodies[0])
    forms.learn(by, KEPT, decode_properties(properties_of(bodies[1])), bodies[1])
    entries = forms.entries(by, bodies, 0, 9, by.head(NOW_MS, persistent=True))
    assert entries == [the_long_way(by, body, answers, persistent=True) for body in bodies]
