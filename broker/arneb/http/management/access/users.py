"""Users over HTTP.

The rule: PUT replaces a user except for the limits, to which those in the body are added; without a
password in the body a user has none afterwards, and keeps the limits. Only a new user gets the
permissions in the body.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.requests.calls import (
    CREATED,
    DONE,
    Body,
    Call,
    Document,
    Reply,
    bad_request,
    invalid,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_core.access.catalogue import hashed
from arneb_core.access.edits import Edit
from arneb_core.access.errors import AccessError
from arneb_core.access.passwords import NO_PASSWORD, PasswordHash, parse_hash
from arneb_core.access.patterns import compiled
from arneb_core.access.records import Permission, User

RIGHTS: Final = ("configure", "write", "read")


def limits_in(limits: Mapping[str, Any]) -> Mapping[str, int]:
    """Return limits whose values are numbers. Raises 400."""
    if not all(type(each) is int for each in limits.values()):
        raise bad_request("expected numbers as limits")
    return limits


def user_document(user: User) -> Document:
    """Return one user, with the password's hash, as in definitions."""
    return {
        "name": user.name,
        "password_hash": user.password.text,
        "hashing_algorithm": user.password.algorithm.value,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def user_in(site: Site, call: Call) -> User:
    """Return the user in the path. Raises 404."""
    user = site.catalogue.get(User, call.params["user"])
    if user is None:
        raise not_found()
    return user


def hash_in(given: Mapping[str, Any]) -> PasswordHash | None:
    """Return the password hash in a body, or None without one. Raises 400."""
    if "password_hash" not in given:
        return None
    text = given["password_hash"]
    if not isinstance(text, str):
        raise bad_request("expected a text as password_hash")
    if not text:
        return NO_PASSWORD
    algorithm = given.get("hashing_algorithm") or PasswordHash().algorithm
    try:
        return parse_hash(text, algorithm)
    except AccessError as error:
        if "base64" in str(error):
            raise bad_request(["not_base64", text[:100]]) from None
        raise invalid(error) from None


def tags_in(body: Body) -> list[str]:
    """Return the tags in a body, in any of their forms. Raises 400."""
    if "tags" in body.given:
        return body.texts("tags")
    if "administrator" in body.given:
        return ["administrator"] if body.flag("administrator") else []
    raise bad_request("tags_not_present")


def check_password(site: Site, password: str) -> None:
    """Raise 400 for a password that the settings forbid, in the words of RabbitMQ's validators."""
    least = site.config.password_length_min
    if len(password) < least:
        raise bad_request(f"minimum required password length: {least}")
    if not compiled(site.config.password_pattern)(password):
        raise bad_request("provided password does not match the validator regular expression")


def put_user(
    edit: Edit,
    name: str,
    password: PasswordHash | None,
    tags: Sequence[str],
    limits: Mapping[str, int],
) -> None:
    """Create or replace a user. ``limits`` are added to the user's own, but if no ``password`` was
    given, not even an empty one, an existing user loses the password and keeps the limits."""
    existed = edit.get(User, name) is not None
    edit.put_user(name, password or NO_PASSWORD, tags)
    if limits and not (existed and password is None):
        edit.set_user_limits(name, {**edit.user(name).limits, **limits})


async def _password_in(site: Site, body: Body) -> PasswordHash | None:
    if {"password", "password_hash"} <= body.given.keys():
        raise bad_request("both_password_and_password_hash_are_provided")
    if "password" not in body.given:
        return hash_in(body.given)
    password = body.text("password")
    check_password(site, password)
    return await hashed(password) if password else NO_PASSWORD


async def _list(site: Site, call: Call) -> Reply:
    return await _answer(site, call, site.catalogue.tables.rows(User))


async def _without_permissions(site: Site, call: Call) -> Reply:
    tables = site.catalogue.tables
    some = {each.user for each in tables.rows(Permission)}
    return await _answer(site, call, [u for u in tables.rows(User) if u.name not in some])


async def _answer(site: Site, call: Call, users: list[User]) -> Reply:
    source = Source(users, user_document, lambda user: (user.name,))
    return Reply(await listed(source, listing_of(call.query), site.pause))


async def _show(site: Site, call: Call) -> Reply:
    return Reply(user_document(user_in(site, call)))


async def _put(site: Site, call: Call) -> Reply:
    body, name = call.document(), call.params["user"]
    tags = tags_in(body)
    limits, permissions = limits_in(body.object("limits")), _permissions_in(body)
    password = await _password_in(site, body)
    existed = site.catalogue.get(User, name) is not None
    async with site.catalogue.changing() as edit:
        put_user(edit, name, password, tags, limits)
        for vhost, patterns in () if existed else permissions:
            edit.set_permissions(name, vhost, *patterns)
    return DONE if existed else CREATED


def _permissions_in(body: Body) -> list[tuple[str, list[str]]]:
    """Return the patterns for each vhost in a body. Raises 400."""
    found = []
    for vhost, given in body.object("permissions").items():
        granted = Body(given if isinstance(given, dict) else {})
        granted.expect(*RIGHTS)
        found.append((vhost, [granted.text(each) for each in RIGHTS]))
    return found


async def _delete(site: Site, call: Call) -> Reply:
    user = user_in(site, call)
    async with site.catalogue.changing() as edit:
        edit.delete_user(user.name)
    return DONE


async def _delete_many(site: Site, call: Call) -> Reply:
    body = call.document()
    body.expect("users")
    names = body.texts("users")
    async with site.catalogue.changing() as edit:
        for name in names:
            edit.delete_user(name)
    return DONE


ROUTES: Final = (
    Route("GET", "users", ADMINISTRATOR, _list),
    Route("GET", "users/without-permissions", ADMINISTRATOR, _without_permissions),
    Route("POST", "users/bulk-delete", ADMINISTRATOR, _delete_many),
    Route("GET", "users/:user", ADMINISTRATOR, _show),
    Route("PUT", "users/:user", ADMINISTRATOR, _put),
    Route("DELETE", "users/:user", ADMINISTRATOR, _delete),
)
