"""Errors: codes, classes and texts as they are sent."""

import pytest

from arneb_amqp import errors
from arneb_amqp.errors import (
    AmqpError,
    ChannelException,
    ConnectionException,
    ReplyCode,
    amqp_error,
)

CHANNEL = [311, 312, 313, 403, 404, 405, 406]
CONNECTION = [320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541]


@pytest.mark.parametrize("code", CHANNEL)
def test_soft_errors_close_the_channel(code: int) -> None:
    assert isinstance(amqp_error(ReplyCode(code)), ChannelException)


@pytest.mark.parametrize("code", CONNECTION)
def test_hard_errors_close_the_connection(code: int) -> None:
    assert isinstance(amqp_error(ReplyCode(code)), ConnectionException)


def test_every_code_is_soft_or_hard() -> None:
    assert set(ReplyCode) == {200, *CHANNEL, *CONNECTION}


@pytest.mark.parametrize(
    "code", [403, 404, 405, 406, 320, 501, 502, 503, 504, 505, 506, 530, 540, 541]
)
def test_constructors_are_named_after_their_codes(code: int) -> None:
    reply_code = ReplyCode(code)
    error = getattr(errors, reply_code.name.lower())("why")
    assert isinstance(error, AmqpError)
    assert error.reply_code is reply_code
    assert isinstance(error, ChannelException) == reply_code.closes_channel_only
    assert error.reply_text == f"{reply_code.name} - why"


def test_a_text_is_cut_to_a_short_string() -> None:
    """As in RabbitMQ: 252 octets and three dots."""
    text = errors.not_found("x" * 300).reply_text
    assert text == "NOT_FOUND - " + "x" * 240 + "..."
    assert len(errors.not_found("é" * 300).reply_text.encode()) <= 255
    exact = errors.not_found("x" * 243).reply_text
    assert len(exact) == 255
    assert not exact.endswith("...")


def test_without_an_explanation_there_is_no_dash() -> None:
    assert errors.internal_error().reply_text == "INTERNAL_ERROR"


def test_the_first_to_know_the_method_sets_it() -> None:
    error = errors.not_found("no queue")
    assert error.caused_by((50, 10)).method == (50, 10)
    assert error.caused_by((60, 20)).method == (50, 10)


def test_names_as_text() -> None:
    assert errors.queue_in_words("q", "/") == "queue 'q' in vhost '/'"
    assert errors.exchange_in_words("x", "v") == "exchange 'x' in vhost 'v'"
