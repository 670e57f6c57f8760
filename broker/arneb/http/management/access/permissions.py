"""Permissions over HTTP, for vhosts and for routing keys.

The rule: a permission is replaced as a whole.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from arneb.http.management.access.users import user_in
from arneb.http.management.access.vhosts import record_in
from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.requests.calls import (
    CREATED,
    DEFAULT_EXCHANGE,
    DONE,
    Call,
    Document,
    Reply,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_core.access.records import Permission, TopicPermission, User


def permission_document(row: Permission) -> Document:
    """Return one permission's document."""
    return {
        "user": row.user,
        "vhost": row.vhost,
        "configure": row.configure,
        "write": row.write,
        "read": row.read,
    }


def topic_permission_document(row: TopicPermission) -> Document:
    """Return one topic permission's document."""
    return {
        "user": row.user,
        "vhost": row.vhost,
        "exchange": row.exchange,
        "write": row.write,
        "read": row.read,
    }


Row = TypeVar("Row", Permission, TopicPermission)


def _within(site: Site, call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the ``rows`` of the vhost and the user in the path, where it names them."""
    if "vhost" in call.params:
        vhost = record_in(site, call).name
        rows = [each for each in rows if each.vhost == vhost]
    if "user" in call.params:
        user = user_in(site, call).name
        rows = [each for each in rows if each.user == user]
    return rows


async def _list(site: Site, call: Call) -> Reply:
    rows = _within(site, call, site.catalogue.tables.rows(Permission))
    source = Source(rows, permission_document, lambda each: (each.vhost, each.user))
    return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))


async def _show(site: Site, call: Call) -> Reply:
    row = _row(site, call)
    return Reply(permission_document(row))


def _row(site: Site, call: Call) -> Permission:
    row = site.catalogue.get(Permission, call.params["user"], call.params["vhost"])
    if row is None:
        raise not_found()
    return row


def _expect_ends(site: Site, call: Call) -> None:
    user = site.catalogue.get(User, call.params["user"])
    if user is None or site.catalogue.vhost(call.params["vhost"]) is None:
        raise bad_request("vhost_or_user_not_found")


async def _put(site: Site, call: Call) -> Reply:
    body, user, vhost = call.document(), call.params["user"], call.params["vhost"]
    _expect_ends(site, call)
    body.expect("configure", "write", "read")
    patterns = [body.text(each) for each in ("configure", "write", "read")]
    existed = site.catalogue.get(Permission, user, vhost) is not None
    async with site.catalogue.changing() as edit:
        edit.set_permissions(user, vhost, *patterns)
    return DONE if existed else CREATED


async def _delete(site: Site, call: Call) -> Reply:
    row = _row(site, call)
    async with site.catalogue.changing() as edit:
        edit.clear_permissions(row.user, row.vhost)
    return DONE


async def _list_topics(site: Site, call: Call) -> Reply:
    rows = _within(site, call, site.catalogue.tables.rows(TopicPermission))
    source = Source(
        rows, topic_permission_document, lambda each: (each.vhost, each.user, each.exchange)
    )
    return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))


async def _show_topics(site: Site, call: Call) -> Reply:
    reply = await _list_topics(site, call)
    if not reply.body:
        raise not_found()
    return reply


async def _put_topic(site: Site, call: Call) -> Reply:
    body, user, vhost = call.document(), call.params["user"], call.params["vhost"]
    _expect_ends(site, call)
    body.expect("exchange", "write", "read")
    exchange = body.text("exchange")
    exchange = "" if exchange == DEFAULT_EXCHANGE else exchange
    # As in RabbitMQ, where all topic permissions of a user in a vhost are one resource.
    existed = any(
        (each.user, each.vhost) == (user, vhost)
        for each in site.catalogue.tables.rows(TopicPermission)
    )
    async with site.catalogue.changing() as edit:
        edit.set_topic_permissions(user, vhost, exchange, body.text("write"), body.text("read"))
    return DONE if existed else CREATED


async def _delete_topics(site: Site, call: Call) -> Reply:
    user, vhost = call.params["user"], call.params["vhost"]
    user_in(site, call)
    record_in(site, call)
    exchange = call.exchange if "exchange" in call.params else None
    if not _within(site, call, site.catalogue.tables.rows(TopicPermission)):
        raise not_found()
    async with site.catalogue.changing() as edit:
        edit.clear_topic_permissions(user, vhost, exchange)
    return DONE


ROUTES: Final = (
    Route("GET", "permissions", ADMINISTRATOR, _list),
    Route("GET", "vhosts/:vhost/permissions", ADMINISTRATOR, _list),
    Route("GET", "users/:user/permissions", ADMINISTRATOR, _list),
    Route("GET", "permissions/:vhost/:user", ADMINISTRATOR, _show),
    Route("PUT", "permissions/:vhost/:user", ADMINISTRATOR, _put),
    Route("DELETE", "permissions/:vhost/:user", ADMINISTRATOR, _delete),
    Route("GET", "topic-permissions", ADMINISTRATOR, _list_topics),
    Route("GET", "vhosts/:vhost/topic-permissions", ADMINISTRATOR, _list_topics),
    Route("GET", "users/:user/topic-permissions", ADMINISTRATOR, _list_topics),
    Route("GET", "topic-permissions/:vhost/:user", ADMINISTRATOR, _show_topics),
    Route("PUT", "topic-permissions/:vhost/:user", ADMINISTRATOR, _put_topic),
    Route("DELETE", "topic-permissions/:vhost/:user", ADMINISTRATOR, _delete_topics),
    # As in RabbitMQ, which heeds the exchange in a path only for DELETE.
    Route("GET", "topic-permissions/:vhost/:user/:exchange", ADMINISTRATOR, _show_topics),
    Route("PUT", "topic-permissions/:vhost/:user/:exchange", ADMINISTRATOR, _put_topic),
    Route("DELETE", "topic-permissions/:vhost/:user/:exchange", ADMINISTRATOR, _delete_topics),
)
