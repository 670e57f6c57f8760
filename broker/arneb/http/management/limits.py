"""Limits over HTTP, of vhosts and of users.

The rule: each is put and deleted by its name, and the others stay.
"""

from typing import Final

from arneb.http.management.calls import DONE, Call, Document, Reply, bad_request
from arneb.http.management.parameters import limits_in
from arneb.http.management.policies import expect_json
from arneb.http.management.router import Route
from arneb.http.management.rules import ADMINISTRATOR, USERS, VISIBLE
from arneb.http.management.site import Site
from arneb.http.management.users import user_in
from arneb.http.management.vhosts import record_in
from arneb_core.access.edits import USER_LIMITS
from arneb_core.access.records import Limits, User, Vhost


def _value_in(call: Call) -> int:
    expect_json(call)
    body = call.document()
    body.expect("value")
    value = body.given["value"]
    if type(value) is not int:
        raise bad_request(f"Validation failed\n\nvalue should be a number: {str(value)[:100]}\n")
    return value


def _of_vhost(vhost: Vhost) -> Document:
    return {"vhost": vhost.name, "value": dict(vhost.limits)}


async def _list_vhosts(site: Site, call: Call) -> Reply:
    names = [each.name for each in await site.vhosts_for(call)]
    records = [each for name in names if (each := site.catalogue.vhost(name)) is not None]
    return Reply([_of_vhost(each) for each in records if each.limits])


async def _set_vhost(site: Site, call: Call) -> Reply:
    vhost = site.vhost_for_change(call).name
    name, value = call.params["name"], _value_in(call)
    limits_in({name: value})
    async with site.catalogue.changing() as edit:
        edit.set_vhost_limits(vhost, {**edit.vhost(vhost).limits, name: value})
    return DONE


async def _clear_vhost(site: Site, call: Call) -> Reply:
    vhost, name = record_in(site, call), call.params["name"]
    if name not in vhost.limits:
        return DONE
    async with site.catalogue.changing() as edit:
        edit.set_vhost_limits(vhost.name, _without(edit.vhost(vhost.name).limits, name))
    return DONE


def _without(limits: Limits, name: str) -> Limits:
    return {each: value for each, value in limits.items() if each != name}


def _of_user(user: User) -> Document:
    return {"user": user.name, "value": dict(user.limits)}


async def _list_users(site: Site, call: Call) -> Reply:
    users = [user_in(site, call)] if "user" in call.params else site.catalogue.tables.rows(User)
    return Reply([_of_user(each) for each in users if each.limits])


async def _set_user(site: Site, call: Call) -> Reply:
    user, name, value = call.params["user"], call.params["name"], _value_in(call)
    if site.catalogue.get(User, user) is None:
        raise bad_request(["no_such_user", user])
    if name not in USER_LIMITS:
        raise bad_request(f'Unrecognised terms [{{<<"{name[:100]}">>,{value}}}] in user-limits')
    async with site.catalogue.changing() as edit:
        edit.set_user_limits(user, {**edit.user(user).limits, name: value})
    return DONE


async def _clear_user(site: Site, call: Call) -> Reply:
    user, name = user_in(site, call), call.params["name"]
    if name not in user.limits:
        return DONE
    async with site.catalogue.changing() as edit:
        edit.set_user_limits(user.name, _without(edit.user(user.name).limits, name))
    return DONE


ROUTES: Final = (
    Route("GET", "vhost-limits", USERS, _list_vhosts),
    Route("GET", "vhost-limits/:vhost", VISIBLE, _list_vhosts),
    Route("PUT", "vhost-limits/:vhost/:name", ADMINISTRATOR, _set_vhost),
    Route("DELETE", "vhost-limits/:vhost/:name", ADMINISTRATOR, _clear_vhost),
    Route("GET", "user-limits", USERS, _list_users),
    Route("GET", "user-limits/:user", USERS, _list_users),
    Route("PUT", "user-limits/:user/:name", ADMINISTRATOR, _set_user),
    Route("DELETE", "user-limits/:user/:name", ADMINISTRATOR, _clear_user),
)
