"""What roles may do if authorization is enabled: commands by the official client, and admin calls,
by everybody who has a right and by everybody who lacks just that one."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.guarded import arneb_with_rights, pulsar_with_rights, token_of
from conformance.brokers.process import Address
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.test_identity import QUIET
from conformance.wire.protobuf import Value
from conformance.wire.pulsar import PulsarClient, PulsarClosed
from conformance.wire.running import run

AUTHORIZATION_ERROR = 4
ENDS_WITHIN_S = 30.0
NAMESPACE = "t/n"
TOPIC = f"persistent://{NAMESPACE}/topic"
ROLES = ("root", "admin", "produces", "consumes", "functions", "of-topic", "nobody")
EVERYBODY = frozenset(ROLES)
MAY_PRODUCE = frozenset({"root", "admin", "produces"})
MAY_CONSUME = frozenset({"root", "admin", "consumes", "of-topic"})
MAY_LOOK = MAY_PRODUCE | MAY_CONSUME
ADMINS = frozenset({"root", "admin"})
SUPER_USERS = frozenset({"root"})
IN_NAMESPACE = frozenset({"root", "admin", "produces", "consumes"})
NAMESPACE_CONSUMERS = frozenset({"root", "admin", "consumes"})


@dataclass(frozen=True)
class Guarded:
    """A broker that requires rights."""

    pulsar: str
    admin: str

    def connect(self, role: str) -> pulsar.Client:
        return pulsar.Client(
            self.pulsar,
            authentication=pulsar.AuthenticationToken(token_of(role)),
            operation_timeout_seconds=5,
            logger=QUIET,
        )

    def call(self, role: str, method: str, path: str, body: Any = None, *, client: str = "") -> int:
        """The status of an admin call, which a proxy makes for ``client``."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token_of(role)}", "Content-Type": "application/json"}
        if client:
            headers["X-Original-Principal"] = client
        url = f"{self.admin}/admin/v2/{path}"
        asking = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(asking, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def play(
        self,
        role: str,
        play: Callable[[PulsarClient], Awaitable[None]],
        *,
        client: str = "",
        expires_in_s: float | None = None,
    ) -> None:
        """Run ``play`` with a connection of ``role`` that sends raw commands, for ``client`` if
        that is given. Raises :class:`PulsarClosed` if CONNECT is refused."""
        host, _, port = self.pulsar.removeprefix("pulsar://").rpartition(":")
        more: list[tuple[int, Value]] = [(3, token_of(role, expires_in_s)), (5, "token")]
        if client:
            more.append((7, client))
        more.append((10, [(1, 1)]))  # it can answer a challenge

        async def connected() -> None:
            connection = await PulsarClient.open(Address(host, int(port)), more)
            await connection.look_up(TOPIC)
            await play(connection)

        run(connected())


@pytest.fixture(scope="session")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    place = tmp_path_factory.mktemp("rights")
    broker: Arneb | PulsarStandalone
    if request.param == "pulsar":
        broker = pulsar_with_rights(place)
        admin = broker.http_url
    else:
        broker = arneb_with_rights(place)
        admin = broker.admin_url
    found = Guarded(broker.pulsar_url, admin)
    grant(found)
    yield found
    broker.stop()


def grant(broker: Guarded) -> None:
    """Grant every role its rights."""
    steps: list[tuple[str, str, Any]] = [
        ("PUT", "tenants/t", {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}),
        ("PUT", f"namespaces/{NAMESPACE}", None),
        ("POST", f"namespaces/{NAMESPACE}/permissions/produces", ["produce"]),
        ("POST", f"namespaces/{NAMESPACE}/permissions/consumes", ["consume"]),
        ("POST", f"namespaces/{NAMESPACE}/permissions/functions", ["functions"]),
        ("POST", f"namespaces/{NAMESPACE}/permissions/proxy", ["produce", "consume"]),
        ("PUT", f"persistent/{NAMESPACE}/topic", None),
        ("POST", f"persistent/{NAMESPACE}/topic/permissions/of-topic", ["consume"]),
        ("PUT", f"persistent/{NAMESPACE}/topic/subscription/kept", "earliest"),
    ]
    for method, path, body in steps:
        status = broker.call("root", method, path, body)
        assert status in (200, 204), (method, path, status)


def produce(client: pulsar.Client) -> None:
    client.create_producer(TOPIC).close()


def subscribe(client: pulsar.Client) -> None:
    client.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.Shared).close()


def read(client: pulsar.Client) -> None:
    client.create_reader(TOPIC, pulsar.MessageId.earliest).close()


def look_up(client: pulsar.Client) -> None:
    client.get_topic_partitions(TOPIC)


COMMANDS: dict[Callable[[pulsar.Client], None], frozenset[str]] = {
    produce: MAY_PRODUCE,
    subscribe: MAY_CONSUME,
    read: MAY_CONSUME,
    look_up: MAY_LOOK,
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.__name__)
def test_a_command_needs_its_right(
    guarded: Guarded, command: Callable[[pulsar.Client], None], role: str
) -> None:
    client = guarded.connect(role)
    try:
        if role in COMMANDS[command]:
            command(client)
        else:
            with pytest.raises(pulsar.AuthorizationError):
                command(client)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("namespace", "error"),
    [("nowhere/at-all", pulsar.TopicNotFound), ("t/not-there", pulsar.AuthorizationError)],
)
def test_without_a_right_the_tenant_seems_not_to_exist(
    guarded: Guarded, namespace: str, error: type[Exception]
) -> None:
    client = guarded.connect("nobody")
    try:
        with pytest.raises(error):
            client.get_topic_partitions(f"persistent://{namespace}/topic")
        with pytest.raises(error):
            client.create_producer(f"persistent://{namespace}/topic")
    finally:
        client.close()


T = f"persistent/{NAMESPACE}/topic"
N = f"namespaces/{NAMESPACE}"

CALLS: dict[tuple[str, str], tuple[frozenset[str], int]] = {
    ("GET", "clusters"): (EVERYBODY, 0),
    ("GET", "brokers/health"): (SUPER_USERS, 401),
    ("GET", "tenants"): (SUPER_USERS, 401),
    ("GET", "tenants/t"): (ADMINS, 401),
    ("GET", "namespaces/t"): (ADMINS, 401),
    ("GET", N): (ADMINS, 403),
    ("GET", f"{N}/topics"): (IN_NAMESPACE, 403),
    ("GET", f"{N}/permissions"): (ADMINS, 403),
    ("GET", f"{N}/permissions/subscription"): (ADMINS, 403),
    ("GET", f"{N}/subscriptionAuthMode"): (ADMINS, 403),
    ("GET", f"{N}/retention"): (ADMINS, 403),
    ("GET", f"{N}/messageTTL"): (ADMINS, 403),
    ("POST", f"{N}/clearBacklog"): (NAMESPACE_CONSUMERS, 403),
    ("GET", f"persistent/{NAMESPACE}"): (IN_NAMESPACE, 403),
    ("GET", f"persistent/{NAMESPACE}/partitioned"): (IN_NAMESPACE, 403),
    ("GET", f"{T}/stats"): (MAY_LOOK, 401),
    ("GET", f"{T}/internalStats"): (MAY_LOOK, 401),
    ("GET", f"{T}/subscriptions"): (MAY_CONSUME, 401),
    ("GET", f"{T}/partitions"): (MAY_LOOK, 401),
    ("GET", f"{T}/permissions"): (ADMINS, 401),
    ("GET", f"{T}/lastMessageId"): (MAY_CONSUME, 401),
    ("POST", f"{T}/subscription/kept/skip_all"): (MAY_CONSUME, 401),
    ("POST", f"{T}/subscription/kept/resetcursor/0"): (MAY_CONSUME, 401),
    ("PUT", f"{T}/unload"): (ADMINS, 401),
    ("GET", f"{T}/retention"): (ADMINS, 403),
    ("GET", f"schemas/{NAMESPACE}/topic/schemas"): (MAY_LOOK, 401),
    ("GET", f"{N}/replication"): (ADMINS, 403),
    ("GET", f"{N}/allowedClusters"): (ADMINS, 403),
    ("GET", f"{N}/0x00000000_0x40000000/topicHashPositions"): (ADMINS, 403),
    ("GET", f"{N}/persistence/bookieAffinity"): (SUPER_USERS, 401),
    ("GET", f"{N}/delayedDelivery"): (ADMINS, 403),
    ("DELETE", f"{N}/delayedDelivery"): (SUPER_USERS, 401),
    ("GET", f"{N}/properties"): (ADMINS, 401),
    ("GET", f"{N}/property/key"): (ADMINS, 401),
    ("DELETE", f"{T}/replication"): (ADMINS, 403),
    ("DELETE", f"{T}/delayedDelivery"): (ADMINS, 403),
    ("GET", f"{T}/maxMessageSize"): (ADMINS, 401),
}
"""The roles that may make a call, and the status for the others."""


WITH_BODIES: dict[tuple[str, str], tuple[Any, frozenset[str], int]] = {
    ("POST", f"{N}/replication"): (["standalone"], ADMINS, 403),
    ("POST", f"{N}/allowedClusters"): (["standalone"], ADMINS, 403),
    ("POST", f"{T}/replication"): (["standalone"], ADMINS, 403),
    ("POST", f"{N}/delayedDelivery"): (
        {"active": True, "tickTime": 1000},
        SUPER_USERS,
        401,
    ),
    ("PUT", f"{N}/properties"): ({"k": "v"}, ADMINS, 401),
    ("POST", f"{T}/maxMessageSize"): (1000, ADMINS, 401),
}
"""The same for calls with a body, which Apache Pulsar reads before it asks for rights."""


@pytest.mark.parametrize("call", WITH_BODIES, ids=" ".join)
def test_a_call_with_a_body_needs_its_right(guarded: Guarded, call: tuple[str, str]) -> None:
    body, allowed, refused = WITH_BODIES[call]
    for role in ROLES:
        status = guarded.call(role, *call, body)
        if role in allowed:
            assert status in (200, 204), (role, status)
        else:
            assert status == refused, (role, status)


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_call_needs_its_right(guarded: Guarded, call: tuple[str, str]) -> None:
    allowed, refused = CALLS[call]
    for role in ROLES:
        status = guarded.call(role, *call)
        if role in allowed:
            assert status not in (401, 403), (role, status)
        else:
            assert status == refused, (role, status)


OF_A_TENANT = [
    call
    for call, (allowed, _) in CALLS.items()
    if "/t" in call[1] and not call[1].startswith("tenants") and allowed != SUPER_USERS
]
"""Calls about something in a tenant, which others than super users may make."""


@pytest.mark.parametrize("call", [*OF_A_TENANT, ("PUT", N), ("DELETE", N)], ids=" ".join)
def test_callers_without_rights_see_no_tenant(guarded: Guarded, call: tuple[str, str]) -> None:
    method, path = call
    assert guarded.call("nobody", method, path.replace("/t", "/nowhere", 1)) == 404


def test_questions_about_a_tenant_itself_need_the_right_first(guarded: Guarded) -> None:
    for method in ("GET", "POST", "DELETE"):
        body = {"allowedClusters": ["standalone"]} if method == "POST" else None
        assert guarded.call("nobody", method, "tenants/nowhere", body) == 401


def test_a_client_that_loses_a_right_is_cut_off(guarded: Guarded) -> None:
    permission = f"{N}/permissions/leaving"
    assert guarded.call("root", "POST", permission, ["produce"]) == 204
    client = guarded.connect("leaving")
    producer = client.create_producer(TOPIC, send_timeout_millis=3000)
    producer.send(b"x")
    assert guarded.call("admin", "DELETE", permission) == 204
    with pytest.raises((pulsar.PulsarException, pulsar.Timeout)):
        for _ in range(50):
            producer.send(b"y")
    client.close()


def test_a_subscription_may_be_for_some_only_or_bear_the_name_of_a_role(guarded: Guarded) -> None:
    path = f"{N}/permissions/subscription/mine"
    assert guarded.call("admin", "POST", path, ["consumes"]) == 204
    mine, other = guarded.connect("consumes"), guarded.connect("of-topic")
    mine.subscribe(TOPIC, "mine").close()
    with pytest.raises(pulsar.AuthorizationError):
        other.subscribe(TOPIC, "mine")
    assert guarded.call("admin", "DELETE", f"{N}/permissions/mine/consumes") == 204
    other.subscribe(TOPIC, "mine").close()
    assert guarded.call("admin", "DELETE", f"{N}/permissions/nothing/consumes") >= 400
    assert guarded.call("admin", "POST", f"{N}/subscriptionAuthMode", "Prefix") == 204
    try:
        mine.subscribe(TOPIC, "consumes-1").close()
        with pytest.raises(pulsar.AuthorizationError):
            mine.subscribe(TOPIC, "another")
    finally:
        assert guarded.call("admin", "POST", f"{N}/subscriptionAuthMode", "None") == 204
        mine.close()
        other.close()


async def command_refused(command: Awaitable[object]) -> bool:
    try:
        await command
    except PulsarClosed as error:
        assert str(error).startswith(f"error {AUTHORIZATION_ERROR}: "), error
        return True
    return False


@pytest.mark.parametrize(
    ("client", "refused"),
    [
        ("produces", [False, True]),
        ("consumes", [True, False]),
        ("root", [False, False]),
        ("nobody", [True, True]),
    ],
)
def test_a_proxy_and_its_client_both_need_the_right(
    guarded: Guarded, client: str, refused: list[bool]
) -> None:
    async def play(connection: PulsarClient) -> None:
        produces = await command_refused(connection.create_producer(TOPIC))
        consumes = await command_refused(connection.subscribe(TOPIC, "of-proxy"))
        assert [produces, consumes] == refused

    guarded.play("proxy", play, client=client)


@pytest.mark.parametrize(
    ("role", "client"),
    [
        ("proxy", ""),
        ("proxy", "proxy"),
        ("consumes", "produces"),
        ("consumes", "consumes"),
        ("root", "consumes"),
    ],
)
def test_proxies_and_nobody_else_name_a_client(guarded: Guarded, role: str, client: str) -> None:
    async def play(connection: PulsarClient) -> None:
        pytest.fail(f"{role} came in for {client!r}")

    with pytest.raises(PulsarClosed):
        guarded.play(role, play, client=client)


@pytest.mark.parametrize(
    ("role", "client", "status"),
    [
        ("proxy", "consumes", 200),
        ("proxy", "root", 200),
        ("proxy", "nobody", 403),
        ("proxy", "", 403),
        ("consumes", "consumes", 200),
        ("consumes", "root", 403),
        ("root", "consumes", 403),
    ],
)
def test_a_proxy_calls_for_its_clients(
    guarded: Guarded, role: str, client: str, status: int
) -> None:
    assert guarded.call(role, "GET", f"persistent/{NAMESPACE}", client=client) == status


def test_a_proxied_connection_ends_with_the_proxys_token(guarded: Guarded) -> None:
    """The client, whom a challenge would reach, has no token of the proxy."""

    async def play(connection: PulsarClient) -> None:
        ended = asyncio.Event()
        connection.ended = ended.set
        await asyncio.wait_for(ended.wait(), ENDS_WITHIN_S)

    guarded.play("proxy", play, client="consumes", expires_in_s=5)
