"""Limits of vhosts and of users over HTTP.

The rule: each is set and deleted by name, and the others stay. Both kinds share one implementation.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from arneb.http.management.access.users import user_in
from arneb.http.management.access.vhosts import record_in
from arneb.http.management.parameters.parameters import limits_in
from arneb.http.management.parameters.policies import expect_json
from arneb.http.management.parameters.policy_checks import invalid_policy, shown
from arneb.http.management.requests.calls import DONE, Call, Reply, bad_request
from arneb.http.management.requests.rules import ADMINISTRATOR, USERS, VISIBLE
from arneb.http.management.router import Handler, Route
from arneb.http.management.site import Site
from arneb_core.access.edits import USER_LIMITS, Edit
from arneb_core.access.records import Limits, User, Vhost

Owner = TypeVar("Owner", Vhost, User)


@dataclass(frozen=True, slots=True)
class Kind(Generic[Owner]):
    """A kind of limits: of vhosts or of users."""

    word: str
    """The owner's key in answers."""
    listed: Callable[[Site, Call], Awaitable[Iterable[Owner]]]
    """The owners that the caller may see."""
    for_change: Callable[[Site, Call], str]
    """Returns the name of the owner to set a limit of."""
    check: Callable[[Site, str, str, int], None]
    """Raises 400 if there is no such owner or no such limit."""
    found: Callable[[Site, Call], Owner]
    """Returns the owner to delete a limit of."""
    of: Callable[[Edit, str], Owner]
    have: Callable[[Edit, str, Limits], None]

    def lister(self) -> Handler:
        """Return the handler that lists owners with limits."""

        async def handle(site: Site, call: Call) -> Reply:
            return Reply(
                [
                    {self.word: each.name, "value": dict(each.limits)}
                    for each in await self.listed(site, call)
                    if each.limits
                ]
            )

        return handle

    def setter(self) -> Handler:
        """Return the handler that sets one limit."""

        async def handle(site: Site, call: Call) -> Reply:
            owner = self.for_change(site, call)
            name, value = call.params["name"], _value_in(call)
            self.check(site, owner, name, value)
            async with site.catalogue.changing() as edit:
                self.have(edit, owner, {**self.of(edit, owner).limits, name: value})
            return DONE

        return handle

    def clearer(self) -> Handler:
        """Return the handler that deletes one limit, if it is set."""

        async def handle(site: Site, call: Call) -> Reply:
            owner, name = self.found(site, call), call.params["name"]
            if name in owner.limits:
                async with site.catalogue.changing() as edit:
                    left = {**self.of(edit, owner.name).limits}
                    left.pop(name, None)
                    self.have(edit, owner.name, left)
            return DONE

        return handle


def _value_in(call: Call) -> int:
    expect_json(call)
    body = call.document()
    body.expect("value")
    value = body.given["value"]
    if type(value) is not int:
        fault = f"{call.params['name'][:100]} should be a number, actually was {shown(value)}"
        raise bad_request(fault) if "user" in call.params else invalid_policy(fault)
    return value


async def _visible_vhosts(site: Site, call: Call) -> Iterable[Vhost]:
    names = [each.name for each in await site.vhosts_for(call)]
    return [each for name in names if (each := site.catalogue.vhost(name)) is not None]


def _check_of_vhost(_: Site, __: str, name: str, value: int) -> None:
    limits_in({name: value})


async def _users(site: Site, call: Call) -> Iterable[User]:
    return [user_in(site, call)] if "user" in call.params else site.catalogue.tables.rows(User)


def _check_of_user(site: Site, user: str, name: str, value: int) -> None:
    if site.catalogue.get(User, user) is None:
        raise bad_request(["no_such_user", user])
    if name not in USER_LIMITS:
        raise bad_request(f'Unrecognised terms [{{<<"{name[:100]}">>,{value}}}] in user-limits')


OF_VHOSTS: Final[Kind[Vhost]] = Kind(
    "vhost",
    _visible_vhosts,
    lambda site, call: site.vhost_for_change(call).name,
    _check_of_vhost,
    record_in,
    Edit.vhost,
    Edit.set_vhost_limits,
)
OF_USERS: Final[Kind[User]] = Kind(
    "user",
    _users,
    lambda _, call: call.params["user"],
    _check_of_user,
    user_in,
    Edit.user,
    Edit.set_user_limits,
)

ROUTES: Final = (
    Route("GET", "vhost-limits", USERS, OF_VHOSTS.lister()),
    Route("GET", "vhost-limits/:vhost", VISIBLE, OF_VHOSTS.lister()),
    Route("PUT", "vhost-limits/:vhost/:name", ADMINISTRATOR, OF_VHOSTS.setter()),
    Route("DELETE", "vhost-limits/:vhost/:name", ADMINISTRATOR, OF_VHOSTS.clearer()),
    Route("GET", "user-limits", USERS, OF_USERS.lister()),
    Route("GET", "user-limits/:user", USERS, OF_USERS.lister()),
    Route("PUT", "user-limits/:user/:name", ADMINISTRATOR, OF_USERS.setter()),
    Route("DELETE", "user-limits/:user/:name", ADMINISTRATOR, OF_USERS.clearer()),
)
