"""Rules: who may use Arneb's own paths of the HTTP port.

The rule: every route has one, and a rule for everybody gives the reason. Users need tags, as in the
management API; a Pulsar role must be a super user. Without authentication everybody may do
everything.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from arneb_core.access.principals import Principal


class Who(Enum):
    """Who may use a route."""

    EVERYBODY = "everybody"
    """Without a login."""
    TOPICS = "whoever has rights on the topics that are asked for"
    MONITORING = "monitoring"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may use a route; for everybody, with the reason."""

    who: Who
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.who is Who.EVERYBODY) == bool(self.reason), "expected a reason for no login"


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated user or role."""

    principal: Principal | None = None
    """A user, with tags and permissions."""
    is_super: bool = False
    """Whether it is a Pulsar role that may do everything."""

    def may(self, who: Who) -> bool:
        """Whether the visitor may use such a route."""
        tags = frozenset[str]() if self.principal is None else self.principal.tags
        return self.is_super or allows(who, tags)


VISITOR: Final = "arneb.visitor"
"""The key of a request's scope that holds the visitor; absent without authentication."""

HEALTH: Final = Rule(Who.EVERYBODY, "probes ask it; it says ok or not, and nothing else")
TOPICS: Final = Rule(Who.TOPICS)
MONITORING: Final = Rule(Who.MONITORING)
ADMINISTRATOR: Final = Rule(Who.ADMINISTRATOR)

_TAGS: Final = {
    Who.MONITORING: frozenset({"administrator", "monitoring"}),
    Who.ADMINISTRATOR: frozenset({"administrator"}),
}


def allows(who: Who, tags: Collection[str]) -> bool:
    """Whether a user with these tags may use such a route."""
    return who not in _TAGS or not _TAGS[who].isdisjoint(tags)


Endpoint = Callable[[Request], Awaitable[Response]]


class RuledRoute(Route):
    """A route with its rule."""

    def __init__(
        self, path: str, endpoint: Endpoint, rule: Rule, methods: Sequence[str] = ("GET",)
    ) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self.rule: Final = rule

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the rule allows; refuse others with the tag that they lack."""
        visitor: Visitor | None = scope.get(VISITOR)
        if visitor is None or visitor.may(self.rule.who):
            await super().handle(scope, receive, send)
            return
        reason = {"reason": f"expected a user with the tag {self.rule.who.value}"}
        await JSONResponse(reason, 403)(scope, receive, send)
