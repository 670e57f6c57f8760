"""Rules: who may use a route.

The rule: every route has a rule; one that is open to everybody says why. A user's tags add up as in
RabbitMQ; a user without the tag gets 401 and RabbitMQ's words.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb.http.management.requests.calls import Call, not_authorised
from arneb_core.access.principals import Principal


class Who(Enum):
    """The users a route is open to."""

    EVERYBODY = "everybody"
    """No login is needed."""
    USERS = "any tag"
    VHOST = "access to the vhost in the path"
    VISIBLE = "monitoring, or access to the vhost in the path"
    MONITORING = "monitoring"
    POLICYMAKER = "policymaker, with access to the vhost in the path"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may use a route; with a reason if that is everybody."""

    who: Who
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.who is Who.EVERYBODY) == bool(self.reason), "expected a reason for no login"


USERS: Final = Rule(Who.USERS)
VHOST: Final = Rule(Who.VHOST)
VISIBLE: Final = Rule(Who.VISIBLE)
MONITORING: Final = Rule(Who.MONITORING)
POLICYMAKER: Final = Rule(Who.POLICYMAKER)
ADMINISTRATOR: Final = Rule(Who.ADMINISTRATOR)

_ADMINS: Final = frozenset({"administrator"})
_MONITORS: Final = frozenset({"administrator", "monitoring"})
_POLICYMAKERS: Final = frozenset({"administrator", "policymaker"})
_USERS: Final = _MONITORS | _POLICYMAKERS | {"management"}

_TAGS: Final = {
    Who.MONITORING: (_MONITORS, "Not monitor user"),
    Who.ADMINISTRATOR: (_ADMINS, "Not administrator user"),
    Who.POLICYMAKER: (_POLICYMAKERS, "User not authorised to access object"),
}

_LOOKED_AT: Final = {
    Who.VHOST: "User not authorised to access virtual host",
    Who.VISIBLE: "User not authorised to access virtual host",
    Who.POLICYMAKER: "User not authorised to access object",
}
"""Rules that also require access to the vhost, and the words of their refusals."""


def is_administrator(caller: Principal) -> bool:
    """Return whether a user may do everything."""
    return not _ADMINS.isdisjoint(caller.tags)


def is_monitor(caller: Principal) -> bool:
    """Return whether a user may see everything."""
    return not _MONITORS.isdisjoint(caller.tags)


async def has_access(call: Call, vhost: str) -> bool:
    """Return whether the caller may access a vhost."""
    if is_administrator(call.caller):
        return True
    return await call.caller.verdicts.admits(vhost, call.address)


async def check(rule: Rule, call: Call) -> None:
    """Raise 401 unless the caller may use the route. Handlers check that the vhost exists."""
    if rule.who is Who.EVERYBODY:
        return
    if _USERS.isdisjoint(call.caller.tags):
        raise not_authorised("Not management user")
    tags, reason = _TAGS.get(rule.who, (_USERS, ""))
    if tags.isdisjoint(call.caller.tags):
        raise not_authorised(reason)
    vhost = call.params.get("vhost")
    if vhost is None or rule.who not in _LOOKED_AT:
        return
    if rule.who is Who.VISIBLE and is_monitor(call.caller):
        return
    if not await has_access(call, vhost):
        raise not_authorised(_LOOKED_AT[rule.who])
