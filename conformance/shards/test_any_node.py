"""Several shards: the Java clients of both protocols publish through one node and consume through
another, also over TLS. They authenticate with what this cluster, another server or a token vouches
for.

The rule: for each of two shards with different leaders, each of three nodes is used for publishing
and for consuming. Arneb stands in for Pulsar, because this tests the way to a leader.
"""

import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pika.exceptions
import pytest
from conformance.brokers.certificates import make_certificate
from conformance.brokers.guarded import make_files, token
from conformance.brokers.pulsar_service import pulsar_service
from conformance.clients import test_clients as amqp_clients
from conformance.cluster_demo.nodes import NodeProcess
from conformance.cluster_demo.shard_nodes import AUDIT, MAIN, VHOSTS, ShardNodes, connect
from conformance.pulsar.clients.programs import built_in_java
from conformance.toolbox import finished
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

HERE: Final = Path(__file__).parent
RUN_WITHIN_S: Final = 300.0
COUNT: Final = 50
TOPICS: Final = {MAIN: "persistent://public/default/", AUDIT: "persistent://public/audit/"}
EVERYTHING: Final = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*"
MANAGING: Final = f"{EVERYTHING} rabbitmq.tag:management"
GOOD_S: Final = 3_600.0

INTERNAL: Final = """certificate = "{files}/server.crt"
key = "{files}/server.key"
authority = "{files}/root.crt"
"""
"""Keys of ``[cluster.internal]``: TLS between the nodes."""

SETTINGS: Final = """
[amqp.tls]
listen = "127.0.0.1:0"
certificate = "{files}/server.crt"
key = "{files}/server.key"
[http.tls]
listen = "127.0.0.1:0"
certificate = "{files}/server.crt"
key = "{files}/server.key"
[pulsar.tls]
listen = "127.0.0.1:0"
certificate = "{files}/server.crt"
key = "{files}/server.key"
client_ca = "{files}/root.crt"
[pulsar.authentication]
methods = ["token", "basic", "tls"]
token_secret_key = "{files}/secret.key"
basic_file = "{files}/users"
[logins]
backends = ["internal", "http", "oauth"]
[logins.oauth]
public_key = "{files}/tokens.pem"
[logins.http]
user_url = "{logins}/user"
vhost_url = "{logins}/vhost"
resource_url = "{logins}/resource"
topic_url = "{logins}/topic"
"""


class Logins:
    """An HTTP authentication server that knows only dora, who may do everything in every vhost."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                asked = parse_qs(parts.query)
                is_known = asked["username"] == ["dora"] and asked.get("password") in (None, ["d"])
                tags = b" management" if parts.path == "/user" else b""
                body = b"allow" + tags if is_known else b"deny"
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Place:
    """The nodes, and what users authenticate with."""

    nodes: ShardNodes
    files: Path
    key: rsa.RSAPrivateKey

    def token(self, scopes: str = EVERYTHING) -> str:
        """A token with a signature that the nodes accept."""
        claims = {"sub": "app", "aud": ["rabbitmq"], "exp": int(time.time() + GOOD_S)}
        return jwt.encode(claims | {"scope": scopes}, self.key, "RS256", headers={"kid": "one"})

    @property
    def ways(self) -> list[tuple[NodeProcess, NodeProcess]]:
        """Pairs of nodes: each with the next one."""
        first, second, third = self.nodes.nodes
        return [(first, second), (second, third), (third, first)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    files = make_files(tmp_path_factory.mktemp("files"))
    root = make_certificate(files, "root")
    # Pulsar's Java client looks up the host name of 127.0.0.1 and expects it in the certificate.
    make_certificate(files, "server", root, dns=["localhost"])
    make_certificate(files, "me", root)
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    (files / "tokens.pem").write_bytes(public)
    logins = Logins()
    more = (INTERNAL + SETTINGS).format(files=files, logins=logins.url)
    with pulsar_service("arneb") as service:
        nodes = ShardNodes(tmp_path_factory.mktemp("nodes"), service.url, service.http, more)
        try:
            nodes.start()
            yield Place(nodes, files, key)
        finally:
            nodes.stop()
            logins.close()


@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
@pytest.mark.parametrize("who", ["carl", "dora", "app"])
def test_the_client_of_amqp_in_java(place: Place, scheme: str, who: str) -> None:
    password = {"carl": "c", "dora": "d", "app": place.token()}[who]
    listener = {"amqp": "amqp", "amqps": "amqp-tls"}[scheme]
    ways = [
        each
        for shard, vhost in VHOSTS.items()
        for number, pair in enumerate(place.ways)
        for each in (
            *(f"{scheme}://127.0.0.1:{node.ports[listener]}/{vhost.replace('/', '%2F')}"
              for node in pair),
            f"{shard}-{scheme}-{who}-{number}",
        )
    ]  # fmt: skip
    *command, _ = amqp_clients.java()
    output = finished(
        [*command, "Through", str(place.files / "root.crt"), who, password, str(COUNT), *ways],
        HERE, RUN_WITHIN_S,
    )  # fmt: skip
    assert len(output.splitlines()) == len(VHOSTS) * len(place.ways), output


PROOFS: Final = {
    "token": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    "basic": "org.apache.pulsar.client.impl.auth.AuthenticationBasic",
    "certificate": "org.apache.pulsar.client.impl.auth.AuthenticationTls",
}


@pytest.mark.parametrize(
    ("scheme", "proof"),
    [
        ("pulsar", "token"), ("pulsar", "basic"),
        ("pulsar+ssl", "token"), ("pulsar+ssl", "basic"), ("pulsar+ssl", "certificate"),
    ],
)  # fmt: skip
def test_the_client_of_pulsar_in_java(place: Place, scheme: str, proof: str) -> None:
    files = place.files
    shown = {
        "token": f"token:{token()}",
        "basic": '{"userId":"me","password":"right"}',
        "certificate": f"tlsCertFile:{files}/me.crt,tlsKeyFile:{files}/me.key",
    }[proof]
    listener = {"pulsar": "pulsar", "pulsar+ssl": "pulsar-tls"}[scheme]
    ways = [
        each
        for shard in VHOSTS
        for number, pair in enumerate(place.ways)
        for each in (
            *(f"{scheme}://127.0.0.1:{node.ports[listener]}" for node in pair),
            f"{TOPICS[shard]}{scheme[:6]}-{listener}-{proof}-{number}",
        )
    ]
    command = built_in_java("Through")
    output = finished(
        [*command, str(files / "root.crt"), PROOFS[proof], shown, str(COUNT), *ways],
        HERE, RUN_WITHIN_S,
    )  # fmt: skip
    assert len(output.splitlines()) == len(VHOSTS) * len(place.ways), output


@pytest.mark.parametrize("shard", VHOSTS)
def test_no_node_admits_a_client_without_credentials(place: Place, shard: str) -> None:
    other = rsa.generate_private_key(65537, 2048)
    elsewhere = place.token("rabbitmq.read:elsewhere/*")
    forged = jwt.encode(
        {"sub": "app", "aud": ["rabbitmq"], "exp": int(time.time() + GOOD_S), "scope": EVERYTHING},
        other, "RS256", headers={"kid": "one"},
    )  # fmt: skip
    for node in place.nodes.nodes:
        for user, password in (
            ("carl", "d"), ("dora", "c"), ("app", "no token"), ("app", forged), ("app", elsewhere),
        ):  # fmt: skip
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connect(node, VHOSTS[shard], user, password)


def test_what_a_token_may_is_judged_by_the_leader_of_each_shard(place: Place) -> None:
    reader = place.token("rabbitmq.read:*/* rabbitmq.configure:*/*")
    for node in place.nodes.nodes:
        for vhost in VHOSTS.values():
            connection = connect(node, vhost, "app", reader)
            channel = connection.channel()
            channel.queue_declare("judged", durable=True)
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
                channel.basic_publish("", "judged", b"x")
            connection.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("who", ["dora", "app"])
def test_the_management_api_at_every_node(place: Place, scheme: str, who: str) -> None:
    login = (who, {"dora": "d", "app": place.token(MANAGING)}[who])
    listener = {"http": "http", "https": "http-tls"}[scheme]
    trusted = ssl.create_default_context(cafile=place.files / "root.crt")
    names = {f"{vhost} {node.name}-{scheme}-{who}" for vhost in VHOSTS.values()
             for node in place.nodes.nodes}  # fmt: skip
    with httpx.Client(auth=login, verify=trusted, timeout=30) as client:
        urls = {
            node.name: f"{scheme}://127.0.0.1:{node.ports[listener]}/api/queues"
            for node in place.nodes.nodes
        }
        for each in names:
            vhost, name = each.split(" ")
            path = f"{vhost.replace('/', '%2F')}/{name}"
            answer = client.put(f"{urls[name[:2]]}/{path}", json={"durable": True})
            assert answer.status_code == 201, (each, answer.text)
        for node, url in urls.items():
            answer = client.get(f"{url}?columns=vhost,name")
            assert answer.status_code == 200, (node, answer.text)
            found = {f"{each['vhost']} {each['name']}" for each in answer.json()}
            assert names <= found, (node, names - found)
        wrong = httpx.BasicAuth(who, "wrong")
        assert client.get(urls["n3"], auth=wrong).status_code == 401
