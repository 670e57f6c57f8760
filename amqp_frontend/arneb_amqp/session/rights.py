"""Rights: what a connection's user may do in its vhost, remembered until permissions change.

The rule: nothing is done before it was checked here. Refusals are not remembered, for they end a
channel. Rights to publish are remembered by exchange name, so a run of messages costs one look into
a set; :meth:`Rights.forget` is called at once when permissions change.
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
"""The default exchange's name in permissions and in refusals."""

IMPERSONATOR: Final = "impersonator"
"""The tag of users who may publish in another user's name."""

REMEMBERED_MAX: Final = 1_000
"""Verdicts remembered by a connection: bounded because routing keys may be unique to each
message."""


class RightUndecided(Exception):
    """The verdict must be fetched first; nothing is done yet."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


class Published(Protocol):
    """The exchange and routing key of a publish."""

    @property
    def exchange(self) -> str: ...

    @property
    def routing_key(self) -> str: ...


class Rights:
    """What one connection may do.

    Invariant: ``writable`` has the exchanges to which any routing key may be published, and
    ``keyed`` has encoded routes (exchange and key) that are allowed one by one.
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
        """Check a publish in the name of ``user``. Raises 406 if that is someone else."""
        name = self.principal.name
        if user != name and IMPERSONATOR not in self.principal.tags:
            raise precondition_failed(
                f"user_id property set to '{user}' but authenticated user was '{name}'"
            )

    def forget(self) -> None:
        """Forget all verdicts: permissions have changed."""
        self.writable.clear()
        self.keyed.clear()
        self._allowed.clear()

    def require(self, questions: Iterable[Question]) -> None:
        """Raises 403 for the first right that is refused, or :class:`RightUndecided`."""
        for question in questions:
            if question not in self._allowed:
                self._require(named(question))
                if self.principal.verdicts.may_be_kept:
                    if len(self._allowed) >= REMEMBERED_MAX:
                        self._allowed.clear()
                    self._allowed.add(question)

    def require_publish(self, route: Published, vhost: RuledVhost) -> None:
        """Check a publish by ``route``. Raises as :meth:`require` does; if allowed, remembers the
        exchange, or the exchange and key where keys are limited."""
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
        """Whether routing keys are checked when ``exchange`` is a topic exchange."""
        return self.principal.verdicts.limits_keys(self.vhost, exchange)

    def _require(self, question: Question) -> None:
        verdict = self.principal.verdicts.may(self.vhost, question)
        if verdict is None:
            raise RightUndecided(question)
        if not verdict:
            raise refusal(question, self.vhost, self.principal.name)


def named(question: Question) -> Question:
    """The question with the default exchange's name as permissions have it."""
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
    """The verdicts for a client that is not authenticated: everything is refused."""

    may_be_kept = False

    def may(self, vhost: str, question: Question) -> bool:
        """Refuse."""
        return False

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """Check keys, too."""
        return True

    async def ask(self, vhost: str, question: Question) -> None:
        """Do nothing: the verdict is known."""

    async def renew(self, user: str, secret: str) -> None:
        """Do nothing."""

    async def admits(self, vhost: str, address: str) -> bool:
        """Refuse."""
        return False


NO_RIGHTS: Final = Rights(Principal("", _Nothing()), "")
