"""Queue arguments: RabbitMQ's words for those that are wrong or different."""

import pytest

from arneb_amqp.errors import ChannelException
from arneb_amqp.topology.queues.arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    NOT_COMPARED,
    QUEUE_ARGUMENTS,
    QUEUE_TYPE,
    WITHOUT_MEANING_HERE,
    QueueType,
    assert_equivalent,
    check_consumer_arguments,
    check_queue_arguments,
    consumer_priority,
)
from arneb_amqp.wire.tables import Field, FieldType, array, boolean, long, longstr, signedint

WORDS = "queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("name", "field", "fault"),
    [
        ("x-message-ttl", signedint(-1), "{value_negative,-1}"),
        ("x-message-ttl", long(315_360_000_001), "{value_too_large,315360000001}"),
        ("x-message-ttl", longstr("x"), '"expected integer, got longstr"'),
        ("x-expires", signedint(0), "{value_zero,0}"),
        ("x-expires", signedint(-1), "{value_negative,-1}"),
        ("x-max-length", signedint(-1), "{value_negative,-1}"),
        ("x-max-length-bytes", boolean(True), '"expected integer, got bool"'),
        ("x-max-priority", signedint(260), "{max_value_exceeded,260}"),
        ("x-overflow", longstr("x"), "invalid_overflow"),
        ("x-overflow", signedint(1), "{unacceptable_type,signedint}"),
        ("x-queue-mode", longstr("x"), "\"unsupported queue mode 'x'\""),
        ("x-queue-version", signedint(3), "\"unsupported queue version '3'\""),
        ("x-queue-type", longstr("x"), "\"unsupported queue type 'x'\""),
        ("x-queue-type", longstr('"'), '"unsupported queue type \'\\"\'"'),
        ("x-queue-type", signedint(1), "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", signedint(1), "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", longstr("k"), "routing_key_but_no_dlx_defined"),
        ("x-consumer-timeout", signedint(-1), "{value_negative,-1}"),
        ("x-consumer-timeout", longstr("1"), '"expected integer, got longstr"'),
    ],
)
def test_wrong_arguments(name: str, field: Field, fault: str) -> None:
    with pytest.raises(ChannelException) as caught:
        check_queue_arguments({name: field}, WORDS)
    assert caught.value.explanation == f"invalid arg '{name}' for {WORDS}: {fault}"


@pytest.mark.parametrize(
    ("kind", "name", "field", "fault"),
    [
        ("quorum", "x-dead-letter-strategy", longstr("x"), "invalid_dlx_strategy"),
        ("quorum", "x-quorum-initial-group-size", signedint(0), "{value_zero,0}"),
        ("stream", "x-max-age", longstr("5x"), "invalid_max_age"),
        ("stream", "x-max-age", longstr("0D"), "invalid_max_age"),
        ("stream", "x-queue-leader-locator", longstr("x"), "invalid_queue_locator_arg"),
        ("quorum", "x-queue-leader-locator", longstr("min-masters"), "invalid_queue_locator_arg"),
    ],
)
def test_wrong_arguments_of_other_types(kind: str, name: str, field: Field, fault: str) -> None:
    with pytest.raises(ChannelException, match="invalid arg") as caught:
        check_queue_arguments({QUEUE_TYPE: longstr(kind), name: field}, WORDS)
    assert caught.value.explanation.endswith(fault)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("quorum", "x-max-priority"), ("stream", "x-message-ttl"), ("classic", "x-max-age")],
)
def test_arguments_of_another_type(kind: str, name: str) -> None:
    with pytest.raises(ChannelException) as caught:
        check_queue_arguments({QUEUE_TYPE: longstr(kind), name: signedint(1)}, WORDS)
    expected = f"invalid arg '{name}' for {WORDS} of queue type rabbit_{kind}_queue"
    assert caught.value.explanation == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-unknown": signedint(1)},
        {"x-message-ttl": signedint(0), "x-expires": long(1), "x-max-priority": signedint(255)},
        {"x-dead-letter-exchange": longstr(""), "x-dead-letter-routing-key": longstr("k")},
        {QUEUE_TYPE: longstr("quorum"), "x-delivery-limit": signedint(3)},
        {QUEUE_TYPE: longstr("stream"), "x-max-age": longstr("7D")},
    ],
)
def test_right_arguments(arguments: dict[str, Field]) -> None:
    check_queue_arguments(arguments, WORDS)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (signedint(1), signedint(2), "received '2' but current is '1'"),
        (signedint(1), None, "received none but current is the value '1' of type 'signedint'"),
        (None, longstr("x"), "received the value 'x' of type 'longstr' but current is none"),
        (longstr("1"), signedint(1), "received '1' but current is '1'"),
        (boolean(True), boolean(False), "received 'false' but current is 'true'"),
        (signedint(1), Field(FieldType.DOUBLE, 1000.0), "received '1.0e3' but current is '1'"),
        (
            None,
            Field(FieldType.VOID, None),
            "received the value 'undefined' of type 'void' but current is none",
        ),
        (
            array([signedint(1)]),
            None,
            "received none but current is the value '[{signedint,1}]' of type 'array'",
        ),
    ],
)
def test_different_arguments(old: Field | None, new: Field | None, text: str) -> None:
    tables = ({"a": field} if field is not None else {} for field in (old, new))
    with pytest.raises(ChannelException) as caught:
        assert_equivalent(*tables, "a", WORDS)
    assert caught.value.explanation == f"inequivalent arg 'a' for {WORDS}: {text}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, None),
        (signedint(1), long(1)),
        (signedint(1), Field(FieldType.UNSIGNEDBYTE, 1)),
        (longstr("x"), longstr("x")),
    ],
)
def test_same_arguments(old: Field | None, new: Field | None) -> None:
    tables = ({"a": field} if field is not None else {} for field in (old, new))
    assert_equivalent(*tables, "a", WORDS)


def test_no_queue_type_is_the_classic_one() -> None:
    assert_equivalent({}, {QUEUE_TYPE: longstr("classic")}, QUEUE_TYPE, WORDS)
    assert_equivalent({QUEUE_TYPE: longstr("classic")}, {}, QUEUE_TYPE, WORDS)
    with pytest.raises(ChannelException, match="inequivalent"):
        assert_equivalent({}, {QUEUE_TYPE: longstr("quorum")}, QUEUE_TYPE, WORDS)


def test_every_known_argument_is_effective_or_listed() -> None:
    """Nothing is claimed in silence: an argument that is not listed must be acted on."""
    lists = (*QUEUE_ARGUMENTS.values(), *NOT_COMPARED.values())
    known = {name for names in lists for name in names}
    acted_on = {
        "x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-overflow",
        "x-delivery-limit", DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, QUEUE_TYPE,
        "x-single-active-consumer", "x-max-priority", "x-max-age",
        "x-stream-max-segment-size-bytes", "x-consumer-timeout",
    }  # fmt: skip
    assert known - WITHOUT_MEANING_HERE == acted_on


@pytest.mark.parametrize("kind", QueueType)
def test_what_is_not_compared_is_refused_for_no_type(kind: QueueType) -> None:
    for name in {name for names in NOT_COMPARED.values() for name in names}:
        assert not any(name in compared for compared in QUEUE_ARGUMENTS.values())
        check_queue_arguments({QUEUE_TYPE: longstr(kind.value), name: signedint(16)}, WORDS)


def test_the_size_of_a_streams_filter_has_bounds() -> None:
    for size in (signedint(15), signedint(256), longstr("16")):
        arguments = {QUEUE_TYPE: longstr("stream"), "x-stream-filter-size-bytes": size}
        with pytest.raises(ChannelException, match="Invalid value for  x-stream-filter-size"):
            check_queue_arguments(arguments, WORDS)


def test_consumer_priorities() -> None:
    assert consumer_priority({}) == 0
    assert consumer_priority({"x-priority": signedint(-3)}) == -3
    with pytest.raises(ChannelException, match="expected integer, got longstr"):
        check_consumer_arguments({"x-priority": longstr("x")}, WORDS, QueueType.CLASSIC)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (QueueType.CLASSIC, "x-stream-offset"),
        (QueueType.QUORUM, "x-stream-offset"),
        (QueueType.QUORUM, "x-cancel-on-ha-failover"),
        (QueueType.STREAM, "x-priority"),
        (QueueType.STREAM, "x-cancel-on-ha-failover"),
    ],
)
def test_consumer_arguments_of_another_queue_type(kind: QueueType, name: str) -> None:
    words = f"invalid arg '{name}' for {WORDS} of queue type {kind.in_words}"
    with pytest.raises(ChannelException, match=words):
        check_consumer_arguments({name: signedint(1)}, WORDS, kind)
    check_consumer_arguments({"x-credit": signedint(1)}, WORDS, kind)
