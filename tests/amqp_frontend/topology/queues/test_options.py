"""Queue options: RabbitMQ's texts for invalid arguments, and the meaning of valid ones."""

from dataclasses import fields

import pytest

from arneb_amqp.errors import ChannelException
from arneb_amqp.topology.queue_types import OverflowPolicy, QueueType
from arneb_amqp.topology.queues.options import (
    ARGUMENTS,
    DEAD_LETTER_EXCHANGE,
    QUEUE_TYPE,
    QueueOptions,
    assert_same_arguments,
    check_queue_arguments,
    compared_arguments,
)
from arneb_amqp.wire.tables import Field, Table, boolean, long, longstr, signedint
from arneb_core.api.subscriptions.limits import Limits

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


def test_no_queue_type_means_classic() -> None:
    assert_same_arguments({}, {QUEUE_TYPE: longstr("classic")}, WORDS)
    assert_same_arguments({QUEUE_TYPE: longstr("classic")}, {}, WORDS)
    with pytest.raises(ChannelException, match="inequivalent"):
        assert_same_arguments({}, {QUEUE_TYPE: longstr("quorum")}, WORDS)


def test_the_first_difference_in_rabbitmqs_order_is_reported() -> None:
    new: Table = {"x-max-length": long(1), "x-message-ttl": long(1)}
    with pytest.raises(ChannelException, match="'x-message-ttl'"):
        assert_same_arguments({}, new, WORDS)
    quorum = {QUEUE_TYPE: longstr("quorum")}
    with pytest.raises(ChannelException, match="'x-max-length'"):
        assert_same_arguments(quorum, {**quorum, **new}, WORDS)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            QueueType.CLASSIC,
            (
                "expires message-ttl dead-letter-exchange dead-letter-routing-key max-length "
                "max-length-bytes max-priority overflow queue-mode queue-version "
                "single-active-consumer queue-type queue-master-locator"
            ),
        ),
        (
            QueueType.QUORUM,
            (
                "dead-letter-exchange dead-letter-routing-key dead-letter-strategy expires "
                "max-length max-length-bytes max-in-memory-length max-in-memory-bytes overflow "
                "single-active-consumer queue-type quorum-initial-group-size delivery-limit "
                "message-ttl queue-leader-locator"
            ),
        ),
        (
            QueueType.STREAM,
            (
                "max-length-bytes queue-type max-age stream-max-segment-size-bytes "
                "initial-cluster-size queue-leader-locator"
            ),
        ),
    ],
)
def test_the_compared_arguments_are_those_that_rabbitmq_compares(
    kind: QueueType, names: str
) -> None:
    assert compared_arguments(kind) == [f"x-{name}" for name in names.split()]


def test_every_argument_sets_an_option_or_is_listed() -> None:
    """No argument is accepted and silently ignored: one that is not listed must have an effect."""
    without_meaning_here = {
        "x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-queue-leader-locator",
        "x-max-in-memory-length", "x-max-in-memory-bytes", "x-quorum-initial-group-size",
        "x-initial-cluster-size", "x-stream-filter-size-bytes",
    }  # fmt: skip
    assert {row.name for row in ARGUMENTS if not row.option} == without_meaning_here


def test_every_option_is_set_by_one_argument() -> None:
    set_by_rows = [row.option for row in ARGUMENTS if row.option]
    assert sorted(set_by_rows) == sorted(each.name for each in fields(QueueOptions))


def test_without_arguments_every_option_has_its_default() -> None:
    options = QueueOptions.parse({})
    assert options == QueueOptions()
    assert (options.type, options.limits, options.refuses) == (QueueType.CLASSIC, Limits(), False)


def test_the_meaning_of_arguments() -> None:
    arguments = {
        QUEUE_TYPE: longstr("quorum"), DEAD_LETTER_EXCHANGE: longstr("x"),
        "x-message-ttl": long(5), "x-delivery-limit": signedint(3), "x-max-length": long(7),
        "x-overflow": longstr("reject-publish-dlx"), "x-single-active-consumer": boolean(True),
    }  # fmt: skip
    assert QueueOptions.parse(arguments) == QueueOptions(
        type=QueueType.QUORUM,
        message_ttl_ms=5,
        dead_letter_exchange="x",
        messages_max=7,
        overflow=OverflowPolicy.REJECT_PUBLISH_DLX,
        single_active_consumer=True,
        delivery_limit=3,
    )


def test_a_queue_that_refuses_drops_nothing() -> None:
    bounded = {"x-max-length": long(7)}
    assert QueueOptions.parse(bounded).limits == Limits(ready_messages_max=7)
    refusing = QueueOptions.parse({**bounded, "x-overflow": longstr("reject-publish")})
    assert refusing.refuses
    assert refusing.limits == Limits()
    assert not QueueOptions.parse({"x-overflow": longstr("reject-publish")}).refuses


def test_only_quorum_queues_have_a_delivery_limit() -> None:
    arguments = {"x-delivery-limit": signedint(3)}
    assert QueueOptions.parse(arguments).limits.delivery_limit is None
    quorum = {**arguments, QUEUE_TYPE: longstr("quorum")}
    assert QueueOptions.parse(quorum).limits.delivery_limit == 3


@pytest.mark.parametrize("kind", QueueType)
def test_an_argument_that_is_not_compared_is_refused_for_no_type(kind: QueueType) -> None:
    rows = [row for row in ARGUMENTS if row.also]
    assert {row.name for row in rows} == {
        "x-consumer-timeout",
        "x-stream-filter-size-bytes",
        "x-history",
    }
    for row in rows:
        assert not row.compared
        value = boolean(True) if row.name == "x-history" else signedint(16)
        check_queue_arguments({QUEUE_TYPE: longstr(kind.value), row.name: value}, WORDS)


def test_the_size_of_a_streams_filter_is_bounded() -> None:
    for size in (signedint(15), signedint(256), longstr("16")):
        arguments = {QUEUE_TYPE: longstr("stream"), "x-stream-filter-size-bytes": size}
        with pytest.raises(ChannelException, match="Invalid value for  x-stream-filter-size"):
            check_queue_arguments(arguments, WORDS)
