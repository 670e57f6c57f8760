"""Errors of brokers, each with a class of its own."""

import pytest

from arneb_pulsar.client.errors import REFUSALS, PulsarError, UnknownServerError, refusal
from arneb_pulsar.wire.proto.pulsar_pb2 import ServerError


@pytest.mark.parametrize("code", ServerError.values())
def test_every_code_has_an_error_of_its_own(code: int) -> None:
    error = refusal(code, "no", "topic t")
    assert error.code == code
    assert str(error) == "topic t: no"
    assert isinstance(error, PulsarError)


def test_no_two_codes_share_a_class() -> None:
    assert len(set(REFUSALS.values())) == len(ServerError.values())


def test_a_code_of_a_newer_broker_is_an_unknown_error() -> None:
    error = refusal(4_711, "", "topic t")
    assert isinstance(error, UnknownServerError)
    assert "UnknownServerError" in str(error)
