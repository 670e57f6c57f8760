"""Arneb's own paths of the HTTP port: every route has its rule, and a user who lacks just that
right is refused, over a real port."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
import trio
from starlette.routing import BaseRoute
from tests.amqp_frontend.opening import open_topology
from tests.broker.http.management.kit import Plain

from arneb.data.granted import GrantedRights
from arneb.data.service import DataService
from arneb.http.access.guarded import Guarded
from arneb.http.access.rules import Rule, RuledRoute, Who
from arneb.http.api.app import http_app
from arneb.http.server.server import serve_http
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.turn_watchdog import TurnWatchdog
from arneb.settings.watermarks import DEFAULT_WATERMARKS, Levels
from arneb_amqp.config import AmqpConfig, User
from arneb_core.access.authority import Authority
from arneb_core.engine.engine import open_engine
from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.authentication.tokens import secret_key
from arneb_pulsar.authorization.authorizer import NO_USERS, Authorizer
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.config import AuthorizationConfig, PulsarConfig
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.clients.authenticator import Authenticator
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry

pytestmark = pytest.mark.real_time

SECRET = bytes(range(32))
TAGS = ("administrator", "monitoring", "management", "policymaker")

OPEN = {"/healthz", "/readyz"}
"""What needs no login; ``/metrics`` too, if ``open_metrics`` says so."""

SUFFICE = {Who.MONITORING: ("administrator", "monitoring"), Who.ADMINISTRATOR: ("administrator",)}


@dataclass
class Port:
    """Where the port is, and what it serves."""

    number: int
    routes: list[BaseRoute]
    namespaces: NamespaceRegistry

    async def status(self, method: str, path: str, proof: str = "", body: bytes = b"") -> int:
        head = f"{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n"
        head += f"authorization: {proof}\r\n" if proof else ""
        head += f"content-length: {len(body)}\r\n\r\n"
        async with await trio.open_tcp_stream("127.0.0.1", self.number) as stream:
            await stream.send_all(head.encode() + body)
            answer = b""
            with trio.fail_after(10):
                while b" " not in answer[:13] or len(answer) < 13:
                    answer += await stream.receive_some()
            return int(answer.split()[1])


def password(name: str) -> str:
    return f"Basic {b64encode(f'{name}:p'.encode()).decode()}"


def token(role: str) -> str:
    return f"Bearer {jwt.encode({'sub': role}, SECRET, 'HS256')}"


@asynccontextmanager
async def served(path: Path, *opened: str) -> AsyncIterator[Port]:
    users = (*(User(name, "p", tags=(name,)) for name in TAGS), User("nobody", "p", tags=()))
    async with open_engine(path / "data") as core:
        topology = await open_topology(core, AmqpConfig(users=users))
        alarms = Alarms(
            DEFAULT_WATERMARKS, path, available=lambda: 1 << 40, read=lambda _: Levels(1, 1 << 40)
        )
        await alarms.look()
        namespaces = NamespaceRegistry(core, ("public/default",), PulsarConfig().policies)
        rights = AuthorizationConfig(True, super_user_roles=("root",))
        authorizer = Authorizer(rights, namespaces, NO_USERS)
        data = DataService(core, topology, rights_of=GrantedRights(topology.catalogue, authorizer))
        own = http_app(core, alarms, TurnWatchdog(), data.routes)
        app = Guarded(
            own,
            Authenticator(Proofs(secret_key(SECRET))),
            {*OPEN, *opened},
            Authority([Plain(topology.catalogue.tables)], lambda _: False),
            is_super=authorizer.is_super,
        )
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, app, listeners)
            yield Port(listeners[0].socket.getsockname()[1], own.routes, namespaces)
            nursery.cancel_scope.cancel()


def test_a_rule_for_everybody_says_why() -> None:
    with pytest.raises(AssertionError):
        Rule(Who.EVERYBODY)
    with pytest.raises(AssertionError):
        Rule(Who.MONITORING, "because")


async def test_every_route_has_a_rule_and_open_routes_are_listed_in_one_constant(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as port:
        assert all(isinstance(each, RuledRoute) for each in port.routes)
        ruled = [each for each in port.routes if isinstance(each, RuledRoute)]
        assert {each.path for each in ruled if each.rule.who is Who.EVERYBODY} == OPEN
        topics = {each.path for each in ruled if each.rule.who is Who.TOPICS}
        assert topics == {each.path for each in ruled if each.path.startswith("/data/v1")}


async def test_a_user_who_lacks_just_the_tag_is_refused_on_every_route(tmp_path: Path) -> None:
    async with served(tmp_path) as port:
        for route in port.routes:
            assert isinstance(route, RuledRoute)
            for method in (route.methods or set()) - {"HEAD"}:
                body = b"{}" if method == "PUT" else b""
                status = await port.status(method, route.path, body=body)
                assert (status == 401) is (route.path not in OPEN), (method, route.path)
                suffice = SUFFICE.get(route.rule.who)
                if suffice is None:
                    continue
                for name in (*TAGS, "nobody"):
                    status = await port.status(method, route.path, password(name), body)
                    assert status == (200 if name in suffice else 403), (method, route.path, name)
                for role, expected in (("root", 200), ("somebody", 403)):
                    status = await port.status(method, route.path, token(role), body)
                    assert status == expected, (method, route.path, role)


async def test_topics_are_read_and_written_by_users_with_rights_on_them(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as port:

        async def change(name: str, *actions: str) -> None:
            await port.namespaces.change_namespace(
                "public/default",
                lambda own: Policies(permissions={**own.permissions, name: list(actions)}),
            )

        await change("reader", "consume")
        await change("writer", "produce")
        topic = "persistent://public/default/t"
        path = f"/data/v1/cursors?topic={topic}"
        assert await port.status("GET", path, token("reader")) == 404  # there is no such topic
        assert await port.status("GET", path, token("root")) == 404
        for role in ("writer", "somebody"):
            assert await port.status("GET", path, token(role)) == 403
        body = b'{"topics": {"%s": {"id": 1}}}' % topic.encode()
        assert await port.status("POST", "/data/v1/ledgers/roll", token("writer"), body) == 403
        assert await port.status("POST", "/data/v1/ledgers/roll", token("reader"), body) == 404


async def test_metrics_are_open_if_the_settings_say_so(tmp_path: Path) -> None:
    async with served(tmp_path, "/metrics") as port:
        assert await port.status("GET", "/metrics") == 200
        assert await port.status("GET", "/metrics/per-object") == 401
        assert await port.status("GET", "/api/topics") == 401


def test_a_role_has_its_rights_and_no_others() -> None:
    caller = Caller("root")
    config = AuthorizationConfig(True, super_user_roles=("root",), proxy_roles=("relay",))

    class Nothing:
        def tenant(self, name: str) -> dict[str, str]:
            return {}

        def has_tenant(self, name: str) -> bool:
            return False

        def namespace_policies(self, namespace: str) -> Policies:
            return Policies()

        def topic_policies(self, topic: str) -> Policies:
            return Policies()

    authorizer = Authorizer(config, Nothing(), NO_USERS)
    assert authorizer.is_super(caller)
    assert not authorizer.is_super(Caller("relay", "root"))
    assert not authorizer.is_super(Caller("root", "ann"))
