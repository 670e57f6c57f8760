"""Remembered rights: by exchange, or by exchange and key, until access changes."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.rights import REMEMBERED_MAX, Rights
from arneb_amqp.wire.route import join_route
from arneb_core.access.principals import Kind, Principal, Question


@dataclass(frozen=True)
class Published:
    exchange: str
    routing_key: str


class Verdicts:
    """Keys of the exchange ``x`` are checked; those that begin with ``a`` are allowed."""

    may_be_kept = True

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def may(self, vhost: str, question: Question) -> bool:
        self.asked.append(question)
        return question.kind is not Kind.TOPIC or question.routing_key.startswith("a")

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        return exchange == "x"


def made(kind: str = "topic") -> tuple[Rights, Verdicts, Any]:
    verdicts = Verdicts()
    exchange = SimpleNamespace(type=kind)
    vhost = SimpleNamespace(router=SimpleNamespace(exchanges={"x": exchange, "y": exchange}))
    return Rights(Principal("u", verdicts), "/"), verdicts, vhost  # type: ignore[arg-type]


def test_an_allowed_key_is_remembered_with_its_exchange_and_with_no_other() -> None:
    rights, _, vhost = made()
    rights.require_publish(Published("x", "a1"), vhost)
    with pytest.raises(AmqpError):
        rights.require_publish(Published("x", "b1"), vhost)
    assert rights.keyed == {join_route("x", "a1")}
    assert not rights.writable
    rights.require_publish(Published("y", "b1"), vhost)
    assert rights.writable == {"y"}


def test_nothing_is_remembered_after_access_has_changed() -> None:
    rights, verdicts, vhost = made()
    for exchange in "xy":
        rights.require_publish(Published(exchange, "a1"), vhost)
    rights.forget()
    assert not rights.keyed
    assert not rights.writable
    asked = len(verdicts.asked)
    rights.require_publish(Published("x", "a1"), vhost)
    assert len(verdicts.asked) == asked + 2


def test_a_key_of_an_exchange_that_may_become_a_topic_exchange_is_not_remembered() -> None:
    rights, _, vhost = made("direct")
    rights.require_publish(Published("x", "b1"), vhost)
    assert not rights.keyed
    assert not rights.writable


def test_the_number_of_remembered_keys_is_bounded() -> None:
    rights, _, vhost = made()
    for number in range(REMEMBERED_MAX + 1):
        rights.require_publish(Published("x", f"a{number}"), vhost)
    assert rights.keyed == {join_route("x", f"a{REMEMBERED_MAX}")}
