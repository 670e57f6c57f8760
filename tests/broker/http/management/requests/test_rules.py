"""Who may use which route: declared for each, and refused to a user who lacks just that."""

from pathlib import Path

import pytest
from tests.broker.http.management.kit import managed

from arneb.http.management.requests.rules import Rule, Who
from arneb.http.management.table import OPEN, ROUTER

LACKING = {
    Who.USERS: "nobody",
    Who.VHOST: "nobody",
    Who.VISIBLE: "nobody",
    Who.MONITORING: "management",
    Who.POLICYMAKER: "management",
    Who.ADMINISTRATOR: "monitoring",
}
"""A user who has everything except what the rule asks for."""

HAVING = {
    Who.USERS: "management",
    Who.VHOST: "management",
    Who.VISIBLE: "monitoring",
    Who.MONITORING: "monitoring",
    Who.POLICYMAKER: "policymaker",
    Who.ADMINISTRATOR: "administrator",
}

VALUES = {"vhost": "%2F"}


def path_of(pattern: str, user: str = "x") -> str:
    values = {**VALUES, "user": user}
    segments = [
        values.get(each[1:], "x") if each[0] == ":" else each for each in pattern.split("/")
    ]
    return "/".join(segments)


def test_nothing_is_open_except_what_one_constant_lists() -> None:
    opened = {(r.method, r.path) for r in ROUTER.routes if r.rule.who is Who.EVERYBODY}
    assert opened == OPEN


def test_a_rule_for_everybody_needs_a_reason() -> None:
    with pytest.raises(AssertionError):
        Rule(Who.EVERYBODY)
    with pytest.raises(AssertionError):
        Rule(Who.USERS, "because")


def test_a_route_of_a_vhost_is_for_users_who_have_access_to_it() -> None:
    lax = {
        (r.method, r.path)
        for r in ROUTER.routes
        if ":vhost" in r.path and r.rule.who in (Who.USERS, Who.EVERYBODY)
    }
    assert lax == {("GET", "consumers/:vhost")}, (
        "this call shows consumers only to those who may see them"
    )


async def test_a_user_who_lacks_just_the_tag_is_refused_on_every_route(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for route in ROUTER.routes:
            path, who = path_of(route.path), route.rule.who
            if who is Who.EVERYBODY:
                continue
            stranger = await call(route.method, path, {}, user=None)
            assert stranger.status == 401, route
            is_of_page = path.startswith("page/")  # which checks its user itself
            assert ("www-authenticate" in stranger.reply.headers) is not is_of_page
            assert (await call(route.method, path, {}, user=LACKING[who])).status == 401, route


async def test_a_user_with_just_the_tag_is_admitted_on_every_route_that_reads(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        for route in ROUTER.routes:
            if route.method == "GET" and route.rule.who is not Who.EVERYBODY:
                user = HAVING[route.rule.who]
                answered = await call("GET", path_of(route.path, user), user=user)
                assert answered.status in (200, 400, 404, 503), (route, answered.reply)


async def test_without_access_to_a_vhost_nothing_in_it_can_be_reached(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for user in ("management", "policymaker", "monitoring"):
            await call.does("DELETE", f"permissions/%2F/{user}")
        for route in ROUTER.routes:
            if route.rule.who in (Who.VHOST, Who.POLICYMAKER) and ":vhost" in route.path:
                answered = await call(route.method, path_of(route.path), {}, user="policymaker")
                assert answered.status == 401, route
        assert [each["vhost"] for each in await call.does("GET", "queues", user="management")] == []
        assert await call.does("GET", "consumers/%2F", user="management") == []
        limits = await call("GET", "vhost-limits/%2F", user="management")
        assert limits.status == 401
        await call.does("GET", "vhost-limits/%2F", user="monitoring")
        listed = await call.does("GET", "exchanges", user="management")
        assert {each["vhost"] for each in listed} == {"v/m"}


async def test_actions_need_the_rights_of_amqp_as_well(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        only_c = {"configure": "^c", "write": "^c", "read": "^c"}
        await call.does("PUT", "permissions/%2F/management", only_c)
        await call.does("PUT", "queues/%2F/other", {})
        refused = [
            ("PUT", "queues/%2F/new", {}),
            ("DELETE", "queues/%2F/other", None),
            ("DELETE", "queues/%2F/other/contents", None),
            ("PUT", "exchanges/%2F/new", {}),
            ("POST", "bindings/%2F/e/amq.direct/q/other", {"routing_key": "k"}),
            (
                "POST",
                "queues/%2F/other/get",
                {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
            ),
            (
                "POST",
                "exchanges/%2F/amq.direct/publish",
                {
                    "properties": {},
                    "routing_key": "k",
                    "payload": "x",
                    "payload_encoding": "string",
                },
            ),
        ]
        for method, path, body in refused:
            answered = await call(method, path, body, user="management")
            assert answered.status == 401, path
            by_channel = path.endswith(("/get", "/publish"))
            refused_with = "ACCESS_REFUSED - " if by_channel else "Access refused."
            assert answered.json["reason"].startswith(refused_with), path
        await call.does("PUT", "queues/%2F/cats", {}, user="management")


async def test_a_wrong_password_is_refused_without_a_reason(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        answered = await call("GET", "whoami", user="nobody-at-all")
        assert answered.status == 401
        assert answered.json == {"error": "not_authorized", "reason": "Not_Authorized"}
        for proof in ("Basic ???", "Basic YQ==", "Bearer x", "Basic"):
            assert (await call("GET", "whoami", user=None, authorization=proof)).status == 401


async def test_a_login_sets_a_cookie_that_admits_its_user(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        login = await call("POST", "login", b"username=admin&password=p", user=None)
        assert (login.status, login.json) == (200, "ok")
        cookie = login.reply.headers["set-cookie"].partition(";")[0]
        assert (await call.does("GET", "whoami", user=None, cookie=cookie))["name"] == "admin"
        assert (await call("POST", "login", b"username=admin&password=q", user=None)).status == 401
