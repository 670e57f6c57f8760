"""Limits over HTTP, of vhosts and of users.

The rule: each is put and deleted by its name, and the others stay. What is said of both kinds is
said once.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from arneb.http.management.access.users import user_in
from arneb.http.management.access.vhosts import record_in
from arneb.http.management.parameters.parameters import limits_in
from arneb.http.management.parameters.policies import expect_json
from arneb.http.management.requests.calls import DONE, Call, Reply, bad_request
from arneb.http.management.requests.rules import ADMINISTRATOR, USERS, VISIBLE
from arneb.http.management.router import Handler, Route
from arneb.http.management.site import Site
from arneb_core.access.edits import USER_LIMITS, Edit
from arneb_core.access.records import Limits, User, Vhost

Owner = TypeVar("Owner", Vhost, User)


@dataclass(frozen=True, slots=True)
class Kind(Generic[Owner]):
    """Whose limits they are."""

    word: str
    """What the answers call it."""
    listed: Callable[[Site, Call], Awaitable[Iterable[Owner]]]
    """Those whom the caller may see."""
    for_change: Callable[[Site, Call], str]
    """The name of the one that gets a limit."""
    check: Callable[[Site, str, str, int], None]
    """Raises 400: there is no such owner, or it has no such limit."""
    found: Callable[[Site, Call], Owner]
    """The one that loses a limit."""
    of: Callable[[Edit, str], Owner]
    have: Callable[[Edit, str, Limits], None]

    def lister(self) -> Handler:
        """Those that have limits."""

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
        """One limit comes, or is another."""

        async def handle(site: Site, call: Call) -> Reply:
            owner = self.for_change(site, call)
            name, value = call.params["name"], _value_in(call)
            self.check(site, owner, name, value)
            async with site.catalogue.changing() as edit:
                self.have(edit, owner, {**self.of(edit, owner).limits, name: value})
            return DONE

        return handle

    def clearer(self) -> Handler:
        """One limit goes; one that is not there has gone."""

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
        raise bad_request(f"Validation failed\n\nvalue should be a number: {str(value)[:100]}\n")
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
