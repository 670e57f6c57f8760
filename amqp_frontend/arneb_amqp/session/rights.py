"""Rights: what the user of a connection may do in its vhost, remembered until that may change.

The rule: nothing is done before it was asked for here, and nothing that was refused is remembered,
for it ends a channel. What may be published to is remembered by the name of the exchange, so that a
run of messages costs one look into a set; :meth:`Rights.forget` is called at once when somebody's
access changes.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from pamqp.commands import Basic

from arneb_amqp.errors import (
    AmqpError,
    access_refused,
    exchange_in_words,
    precondition_failed,
    queue_in_words,
)
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.session.rules import Asked, RuledVhost, questions
from arneb_amqp.wire.route import join_route
from arneb_core.access.principals import Kind, Principal, Question

DEFAULT_EXCHANGE_NAME: Final = "amq.default"
"""What the exchange without a name is called in permissions, and in refusals."""

IMPERSONATOR: Final = "impersonator"
"""The tag of users who may publish in the name of others."""

REMEMBERED_MAX: Final = 1_000
"""Verdicts of a connection; routing keys may be unique to each message."""


class Unsettled(Exception):
    """Whether something is allowed must be found out elsewhere first; nothing is done yet."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


class Published(Protocol):
    """Where a message is published to."""

    @property
    def exchange(self) -> str: ...

    @property
    def routing_key(self) -> str: ...


class Rights:
    """What one connection may do.

    Invariant: ``writable`` has exchanges to which anything may be published, by any routing key,
    and ``keyed`` exchanges with keys by which it may, as they come.
    """

    __slots__ = ("_allowed", "keyed", "principal", "vhost", "writable")

    def __init__(self, principal: Principal, vhost: str) -> None:
        self.principal = principal
        self.vhost = vhost
        self.writable: set[str] = set()
        self.keyed: set[bytes] = set()
        self._allowed: set[Question] = set()

    def __repr__(self) -> str:
        return f"<Rights of {self.principal.name!r} in {self.vhost!r}>"

    def check_user_id(self, user: str) -> None:
        """Something is published in the name of ``user``. Raises 406 for that of another one."""
        name = self.principal.name
        if user != name and IMPERSONATOR not in self.principal.tags:
            raise precondition_failed(
                f"user_id property set to '{user}' but authenticated user was '{name}'"
            )

    def forget(self) -> None:
        """Somebody's access has changed."""
        self.writable.clear()
        self.keyed.clear()
        self._allowed.clear()

    def require(self, questions: Iterable[Question]) -> None:
        """Raises 403 for the first that is not allowed, and :class:`Unsettled`."""
        for question in questions:
            if question not in self._allowed:
                self._require(named(question))
                if self.principal.verdicts.may_be_kept:
                    if len(self._allowed) >= REMEMBERED_MAX:
                        self._allowed.clear()
                    self._allowed.add(question)

    def require_publish(self, route: Published, vhost: RuledVhost) -> None:
        """Something is published by that route. Raises as :meth:`require`; else the exchange is
        remembered, or with its key if keys are looked at there."""
        asked = tuple(questions(Basic.Publish, Asked(route, vhost, limits_keys=self.limits_keys)))
        self.require(asked)
        if not self.principal.verdicts.may_be_kept:
            return
        if not self.limits_keys(route.exchange):
            self.writable.add(route.exchange)
        elif any(each.kind is Kind.TOPIC for each in asked):
            if len(self.keyed) >= REMEMBERED_MAX:
                self.keyed.clear()
            self.keyed.add(join_route(route.exchange, route.routing_key))

    def limits_keys(self, exchange: str) -> bool:
        """Routing keys are looked at if that is a topic exchange."""
        return self.principal.verdicts.limits_keys(self.vhost, exchange)

    def _require(self, question: Question) -> None:
        verdict = self.principal.verdicts.may(self.vhost, question)
        if verdict is None:
            raise Unsettled(question)
        if not verdict:
            raise refusal(question, self.vhost, self.principal.name)


def named(question: Question) -> Question:
    """The same with the name under which the default exchange is known in permissions."""
    if question.kind is Kind.EXCHANGE and question.name == DEFAULT_EXCHANGE:
        return Question(question.right, Kind.EXCHANGE, DEFAULT_EXCHANGE_NAME)
    return question


def refusal(question: Question, vhost: str, user: str) -> AmqpError:
    """403 in RabbitMQ's words."""
    match question.kind:
        case Kind.QUEUE:
            what = queue_in_words(question.name, vhost)
        case Kind.EXCHANGE:
            what = exchange_in_words(question.name, vhost)
        case Kind.TOPIC:
            what = f"topic '{question.routing_key}' in {exchange_in_words(question.name, vhost)}"
    return access_refused(f"{question.right.value} access to {what} refused for user '{user}'")


class _Nothing:
    """What a client may do before it is authenticated."""

    may_be_kept = False

    def may(self, vhost: str, question: Question) -> bool:
        """Nothing."""
        return False

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """And with no key."""
        return True

    async def ask(self, vhost: str, question: Question) -> None:
        """It is known."""

    async def renew(self, user: str, secret: str) -> None:
        """Nor is anything said."""

    async def admits(self, vhost: str, address: str) -> bool:
        """Nowhere."""
        return False


NO_RIGHTS: Final = Rights(Principal("", _Nothing()), "")
