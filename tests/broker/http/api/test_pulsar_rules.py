"""Every route of Pulsar's admin API against its rule, over a real port: with just that right, and
with all but that."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import jwt
import pytest
import trio

from arneb.http.api.pulsar_admin import pulsar_admin_app
from arneb.http.server.server import serve_http
from arneb_core.engine.engine import open_engine
from arneb_pulsar.admin.api import ROUTER
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import INSIDE, TENANT_ITSELF, Rule, Scope
from arneb_pulsar.authorization.operations import ACTIONS
from arneb_pulsar.config import AuthenticationConfig, AuthorizationConfig, PulsarConfig
from arneb_pulsar.names import parse_topic
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.context import BrokerContext, make_context

pytestmark = pytest.mark.real_time

SECRET = bytes(range(32))
EVERYTHING = ("produce", "consume", "functions", "sources", "sinks", "packages")

OPEN = {
    ("GET", "/admin/v2/clusters"),
    ("GET", "/admin/v2/brokers/ready"),
    ("GET", "/admin/v2/brokers/version"),
    ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics"),
    ("POST", "/admin/v2/namespaces/revokePermissionsOnTopics"),
}
"""What every authenticated client may ask; the last two check who is asking themselves."""

REFUSED = {
    Scope.SUPER_USER: (401, "This operation requires super-user access"),
    Scope.ADMIN: (401, "Don't have permission to administrate resources on this tenant"),
    Scope.TENANT: (401, "Unauthorized to validateTenantOperation for"),
    Scope.NAMESPACE: (403, "Unauthorized to validateNamespaceOperation for operation"),
    Scope.NAMESPACE_POLICY: (403, "Unauthorized to validateNamespacePolicyOperation for operation"),
    Scope.TOPIC: (401, "Unauthorized to validateTopicOperation for operation"),
    Scope.TOPIC_POLICY: (403, "Unauthorized to validateTopicPolicyOperation for operation"),
}

VALUES = {
    "tenant": "public",
    "namespace": "default",
    "topic": "t",
    "subscription": "s",
    "role": "somebody",
    "cluster": "standalone",
}


def path_of(route: Route) -> str:
    parts = []
    for part in route.path.split("/"):
        name, _, value = part.strip("{}").partition("=")
        parts.append((value or VALUES.get(name, "1")) if part.startswith("{") else part)
    return "/".join(parts)


@dataclass
class Port:
    """The address for administrators."""

    context: BrokerContext
    number: int

    async def ask(self, method: str, path: str, role: str, body: Any = None, **headers: str) -> Any:
        """Status and reason of one request."""
        proof = jwt.encode({"sub": role}, SECRET, "HS256")
        data = b"" if body is None else json.dumps(body).encode()
        sent = [("host", "here"), ("content-length", str(len(data))), ("connection", "close")]
        sent += [("authorization", f"Bearer {proof}")] if role else []
        sent += [(name.replace("_", "-"), value) for name, value in headers.items()]
        wire = h11.Connection(h11.CLIENT)
        async with await trio.open_tcp_stream("127.0.0.1", self.number) as stream:
            request = wire.send(h11.Request(method=method, target=path, headers=sent))
            rest = wire.send(h11.Data(data=data)) or b""
            await stream.send_all((request or b"") + rest + (wire.send(h11.EndOfMessage()) or b""))
            status, answer = 0, b""
            while True:
                event = wire.next_event()
                if event is h11.NEED_DATA:
                    wire.receive_data(bytes(await stream.receive_some()))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    answer += event.data
                else:
                    break
        try:
            return status, json.loads(answer)["reason"]
        except (ValueError, KeyError, TypeError):
            return status, ""

    async def grant(self, namespace: str, role: str, *actions: str) -> None:
        def change(own: Policies) -> Policies:
            return Policies(permissions={**own.permissions, role: list(actions)})

        await self.context.namespaces.change_namespace(namespace, change)


@asynccontextmanager
async def served(tmp_path: Path, **settings: Any) -> AsyncIterator[Port]:
    (tmp_path / "secret").write_bytes(SECRET)
    proofs = AuthenticationConfig(("token",), token_secret_key=tmp_path / "secret")
    config = PulsarConfig(authentication=proofs, namespaces=("public/default", "public/other"))
    rights = AuthorizationConfig(
        True, super_user_roles=("root",), proxy_roles=("relay",), **settings
    )
    async with open_engine(tmp_path / "data") as core:
        context = make_context(core, config, authorization=rights)
        app = pulsar_admin_app(context, core)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, app, listeners)
            yield Port(context, listeners[0].socket.getsockname()[1])
            nursery.cancel_scope.cancel()


def test_open_routes_are_listed_in_one_constant() -> None:
    opened = {(r.method, r.path) for r in ROUTER.routes if r.rule.scope is Scope.NOTHING}
    assert opened == OPEN


def test_a_rule_for_everybody_says_why() -> None:
    with pytest.raises(AssertionError):
        Rule(Scope.NOTHING)
    with pytest.raises(AssertionError):
        Rule(Scope.SUPER_USER, reason="because")


def test_routes_that_name_a_topic_are_ruled_by_it_or_by_its_tenant() -> None:
    lax = {
        (r.method, r.path)
        for r in ROUTER.routes
        if "{topic}" in r.path and r.rule.scope in (Scope.NOTHING, Scope.TENANT)
    }
    assert not lax


N, T = "namespaces/{tenant}/{namespace}", "{domain=persistent}/{tenant}/{namespace}/{topic}"


@pytest.mark.parametrize(
    ("call", "scope", "name"),
    [
        (f"POST {N}/replication", Scope.NAMESPACE_POLICY, "REPLICATION"),
        (f"POST {N}/allowedClusters", Scope.NAMESPACE_POLICY, "ALLOW_CLUSTERS"),
        (f"POST {T}/replication", Scope.TOPIC_POLICY, "REPLICATION"),
        (f"DELETE {T}/replication", Scope.TOPIC_POLICY, "REPLICATION"),
        (f"GET {N}/{{bundle}}/topicHashPositions", Scope.NAMESPACE_POLICY, "PERSISTENCE"),
        (f"DELETE {N}/{{bundle}}", Scope.NAMESPACE, "DELETE_BUNDLE"),
        (f"GET {N}/delayedDelivery", Scope.NAMESPACE_POLICY, "DELAYED_DELIVERY"),
        (f"POST {N}/delayedDelivery", Scope.SUPER_USER, ""),
        (f"DELETE {N}/delayedDelivery", Scope.SUPER_USER, ""),
        (f"POST {T}/delayedDelivery", Scope.TOPIC_POLICY, "DELAYED_DELIVERY"),
        (f"GET {N}/persistence/bookieAffinity", Scope.SUPER_USER, ""),
        (f"GET {N}/properties", Scope.ADMIN, ""),
        (f"PUT {N}/property/{{key}}/{{value}}", Scope.ADMIN, ""),
        (f"GET {T}/maxMessageSize", Scope.ADMIN, ""),
        (f"POST {T}/maxMessageSize", Scope.ADMIN, ""),
    ],
)
def test_rules_that_one_would_not_guess_are_those_of_pulsar(
    call: str, scope: Scope, name: str
) -> None:
    """As Apache Pulsar 4.0.7 answers: ``conformance/pulsar/test_rights.py`` asks it."""
    method, path = call.split(" ")
    [rule] = [r.rule for r in ROUTER.routes if (r.method, r.path) == (method, f"/admin/v2/{path}")]
    asks = rule.name or (rule.operation.name if rule.operation else "")
    assert (rule.scope, asks) == (scope, name)


def suffices(rule: Rule) -> list[str]:
    """Roles of which each has just what the rule asks for."""
    if rule.scope in (Scope.TOPIC, Scope.NAMESPACE):
        assert rule.operation is not None
        return [f"has {each}" for each in ACTIONS[rule.operation]] + ["admin"]
    return ["root"] if rule.scope is Scope.SUPER_USER else ["admin", "root"]


def lacking(rule: Rule) -> list[str]:
    """Roles that have everything except what the rule asks for."""
    if rule.scope is Scope.SUPER_USER:
        return ["admin", "lacking", "has produce"]
    if rule.scope in (Scope.TOPIC, Scope.NAMESPACE):
        assert rule.operation is not None
        actions = ACTIONS[rule.operation]
        return ["lacking", *(f"has {each}" for each in EVERYTHING if each not in actions)]
    return ["lacking", "has produce", "has consume"]


async def test_a_role_that_lacks_just_the_right_is_refused_on_every_route(tmp_path: Path) -> None:
    async with served(tmp_path) as port:
        context = port.context
        await context.namespaces.put_tenant("public", {"adminRoles": ["admin"]})
        await context.namespaces.put_tenant("other", {"adminRoles": ["lacking"]})
        await port.grant("public/other", "lacking", *EVERYTHING)
        for action in EVERYTHING:
            await port.grant("public/default", f"has {action}", action)
        routes = [r for r in ROUTER.routes if r.rule.scope is not Scope.NOTHING]
        refused = 0
        for route in routes:
            rule, path = route.rule, path_of(route)
            status, words = REFUSED[rule.scope]
            for role in lacking(rule):
                got = await port.ask(route.method, path, role)
                assert got[0] == status, (route.method, path, role, got)
                assert got[1].startswith(words), (route.method, path, role, got)
                refused += 1
            assert (await port.ask(route.method, path, ""))[0] == 401
        # None of all this was carried out.
        assert context.namespaces.tenant("public") == {"adminRoles": ["admin"]}
        assert not context.core.topics
        assert refused > 2 * len(routes)


async def test_a_role_without_rights_can_learn_that_a_tenant_does_not_exist(tmp_path: Path) -> None:
    async with served(tmp_path) as port:
        asked = 0
        for route in ROUTER.routes:
            if route.rule.scope not in INSIDE or route.rule.name in TENANT_ITSELF:
                continue
            path = path_of(route).replace("/public/default", "/nowhere/at-all")
            path = path.replace("namespaces/public", "namespaces/nowhere")
            assert await port.ask(route.method, path, "lacking") == (404, "Tenant does not exist")
            asked += 1
        assert asked > len(ROUTER.routes) / 2
        for method in ("GET", "POST", "DELETE"):
            assert (await port.ask(method, "/admin/v2/tenants/nowhere", "lacking"))[0] == 401
        path = "/admin/v2/namespaces/nowhere/at-all/topics"
        assert (await port.ask("GET", path, "lacking", x_original_principal="me"))[0] == 403
        assert (await port.ask("GET", path, "root"))[0] == 404


async def test_a_role_with_just_the_right_is_allowed(tmp_path: Path) -> None:
    async with served(tmp_path) as port:
        for route in ROUTER.routes:
            if route.rule.scope is Scope.NOTHING:
                continue
            await port.context.namespaces.put_tenant("public", {"adminRoles": ["admin"]})
            for action in EVERYTHING:
                await port.grant("public/default", f"has {action}", action)
            for role in suffices(route.rule):
                status, reason = await port.ask(route.method, path_of(route), role)
                words = REFUSED[route.rule.scope][1]
                assert not reason.startswith(words), (route.path, role, status, reason)
                assert status not in (401, 403, 500), (route.path, role, status, reason)


async def test_permissions_over_several_topics_are_for_their_administrators(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as port:
        context = port.context
        await context.namespaces.put_tenant("public", {"adminRoles": ["admin"]})
        topics = [f"persistent://public/default/{name}" for name in "ab"]
        for topic in topics:
            await context.topics.make(parse_topic(topic))
        path = "/admin/v2/namespaces/grantPermissionsOnTopics"
        wanted = [{"topic": each, "role": "r", "actions": ["consume"]} for each in topics]
        assert (await port.ask("POST", path, "lacking", wanted))[0] == 401
        assert not context.namespaces.topic_permissions("public/default")
        assert (await port.ask("POST", path, "admin", wanted))[0] == 204
        assert context.namespaces.topic_permissions("public/default") == {
            each: {"r": ["consume"]} for each in topics
        }
        elsewhere = [*wanted, {"topic": "persistent://u/n/c", "role": "r", "actions": ["consume"]}]
        missing = [*wanted, {"topic": "persistent://public/default/c", "role": "x", "actions": []}]
        for bad, status in ((elsewhere, 412), (missing, 404), ([], 400), ([1], 400), ({}, 400)):
            assert (await port.ask("POST", path, "admin", bad))[0] == status
        path = path.replace("grant", "revoke")
        assert (await port.ask("POST", path, "lacking", wanted))[0] == 401
        assert (await port.ask("POST", path, "admin", wanted))[0] == 204
        assert not context.namespaces.topic_permissions("public/default")


@pytest.mark.parametrize(
    ("role", "original", "status"),
    [("relay", "root", 200), ("relay", "", 401), ("relay", "relay", 401), ("root", "me", 401),
     ("me", "root", 401), ("root", "root", 200), ("relay", "me", 401)],
)  # fmt: skip
async def test_a_proxy_names_the_role_it_acts_for_and_both_must_be_allowed(
    tmp_path: Path, role: str, original: str, status: int
) -> None:
    async with served(tmp_path) as port:
        headers = {"x_original_principal": original} if original else {}
        path = "/admin/v2/tenants"
        if (role, original) == ("relay", "root"):
            assert (await port.ask("GET", path, role, **headers))[0] == 401
            path = "/admin/v2/namespaces/public/default/topics"
            await port.grant("public/default", "relay", "consume")
        assert (await port.ask("GET", path, role, **headers))[0] == status
        mine = "/admin/v2/persistent/public/default"
        if (role, original) == ("relay", "me"):
            await port.grant("public/default", "me", "consume")
            assert (await port.ask("GET", mine, role, **headers))[0] == 403
            await port.grant("public/default", "relay", "consume")
            assert (await port.ask("GET", mine, role, **headers))[0] == 200


async def test_a_client_without_credentials_has_the_anonymous_role_if_there_is_one(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, anonymous_role="anon") as port:
        path = "/admin/v2/persistent/public/default"
        assert (await port.ask("GET", path, ""))[0] == 403
        await port.grant("public/default", "anon", "consume")
        assert (await port.ask("GET", path, ""))[0] == 200
        assert (await port.ask("GET", path, "", authorization="Bearer x"))[0] == 401
