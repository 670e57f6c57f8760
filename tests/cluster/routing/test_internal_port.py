"""The internal port: clients that are not nodes get nothing there, and cost nobody else anything;
with a secret and with TLS."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from conformance.brokers.certificates import make_certificate
from tests.cluster.routing.nodes import SECRET, Node, Nodes, in_thread, two_nodes

from arneb_cluster.routing.calling import CALL_S, Called, NotTaken, call
from arneb_cluster.routing.internal_port import PROVE_S, InternalPort, Serve, serve_internal
from arneb_cluster.routing.internal_protocol import (
    RECORD,
    Answering,
    Asking,
    CallRefused,
    Kind,
    Request,
    Secret,
    record,
)
from arneb_cluster.routing.internal_settings import InternalSettings, tls_of
from arneb_cluster.routing.internal_stream import InternalStream
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.placement import NodeAddresses, NotServed

REQUEST = Request("echo", "public/default", b"who")


class Echo:
    """Serves a client by sending back what it receives."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def prepare(self, request: Request) -> Serve:
        self.asked.append(request)
        if request.document == b"nobody":
            raise NotServed("nobody is served")

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            async with InternalStream(trio.socket.from_stdlib_socket(sock), records) as stream:
                data = early or await stream.receive_some()
                while data:
                    await stream.send_all(data)
                    data = await stream.receive_some()
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(b"that was all")
                    await stream.send_eof()
                    await stream.receive_some()

        return serve


class Port:
    """A port that echoes, on loopback."""

    def __init__(self, settings: InternalSettings) -> None:
        self.settings = settings
        self.echo = Echo()
        self.port = InternalPort(settings, {"echo": self.echo})
        self.address = NodeAddresses("leader")

    async def serve(self, nursery: trio.Nursery) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        number = listeners[0].socket.getsockname()[1]
        self.address = NodeAddresses("leader", internal=f"127.0.0.1:{number}")
        await nursery.start(partial(serve_internal, self.port, listeners))

    async def connect(self) -> trio.SocketStream:
        host, _, port = self.address.internal.partition(":")
        return await trio.open_tcp_stream(host, int(port))

    async def check(self, settings: InternalSettings | None = None) -> None:
        """An honest node is served."""
        called = await call(settings or self.settings, self.address, REQUEST)
        await called.stream.send_all(b"hello")
        assert await called.stream.receive_some() == b"hello"
        await called.stream.aclose()


async def talk(called: Called) -> None:
    """Send much to an echo and receive it back; then send the end, which comes back as well."""
    stream, data = called.stream, b"x" * 50_000
    heard = called.early
    for _ in range(40):
        await stream.send_all(data)
        while len(heard) < len(data):
            piece = await stream.receive_some()
            assert piece, f"the end after {len(heard)} bytes"
            heard += piece
        assert heard == data
        heard = b""
    await stream.send_eof()
    assert await stream.receive_some() == b"that was all"
    assert await stream.receive_some() == b""
    await stream.aclose()


BY_SECRET = InternalSettings("node", SECRET)


@pytest.mark.real_time
async def test_a_client_is_served_and_either_end_may_end_first() -> None:
    port = Port(BY_SECRET)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        await talk(await call(BY_SECRET, port.address, REQUEST))
        assert port.echo.asked == [REQUEST]
        assert port.port.accepted_total == 1
        nursery.cancel_scope.cancel()


async def hears(stream: trio.SocketStream) -> bytes:
    heard = b""
    with trio.fail_after(PROVE_S + 5):
        try:
            while data := await stream.receive_some():
                heard += bytes(data)
        except trio.BrokenResourceError:
            pass
    await trio.aclose_forcefully(stream)
    return heard


HELLO = Asking(SECRET, "x", bytes(32), REQUEST).hello()
HOSTILE = {
    "AMQP": b"AMQP\0\0\x09\x01",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a1"),
    "zeros": bytes(4096),
    "a huge head": RECORD.pack(0xFFFF_FFFF, Kind.HELLO),
    "a request at once": record(Kind.REQUEST, b"p" * 32, b"echo", b"public/default", b"who"),
    "a hello and garbage": HELLO + b"\xff" * 64,
    "a hello and a request of one who guesses": HELLO
    + record(Kind.REQUEST, b"p" * 32, b"echo", b"public/default", b"who"),
    "an acceptance": record(Kind.ACCEPTED, b""),
}


@pytest.mark.real_time
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
async def test_strangers_get_one_sentence_and_the_service_never_sees_them(data: bytes) -> None:
    port = Port(BY_SECRET)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        stranger = await port.connect()
        await stranger.send_all(data)
        await port.check()
        await stranger.send_eof()
        heard = await hears(stranger)
        assert b"expected" in heard
        assert SECRET.value not in heard
        await port.check()
        assert len(port.echo.asked) == 2, "only honest nodes are asked for anything"
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_another_secret_is_refused_by_both_sides() -> None:
    port = Port(BY_SECRET)
    other = InternalSettings("node", Secret(b"another secret, which is just as long"))
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        with pytest.raises(NotTaken, match="cannot be reached"):
            await call(other, port.address, REQUEST)
        await port.check()
        assert len(port.echo.asked) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_a_recorded_conversation_cannot_be_replayed() -> None:
    port = Port(BY_SECRET)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        node = await port.connect()
        asking = Asking(SECRET, "node", bytes(32), REQUEST)
        await node.send_all(asking.hello())
        asked = b""
        while not asked:
            asked = asking.receive(bytes(await node.receive_some()))
        await node.send_all(asked)
        await node.receive_some()
        thief = await port.connect()
        await thief.send_all(asking.hello() + asked)
        await thief.send_eof()
        assert b"expected a proof" in await hears(thief)
        assert len(port.echo.asked) == 1
        await node.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_unknown_requests_are_refused_with_a_sentence() -> None:
    port = Port(BY_SECRET)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        with pytest.raises(NotTaken, match="refused: nobody is served"):
            await call(BY_SECRET, port.address, Request("echo", "n", b"nobody"))
        reason = "expected a client of one of echo, got 'mail'"
        with pytest.raises(NotTaken, match=reason):
            await call(BY_SECRET, port.address, Request("mail", "n", b""))
        nursery.cancel_scope.cancel()


async def test_a_silent_client_is_cut_off_in_time() -> None:
    port = Port(BY_SECRET)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        stranger = await port.connect()
        began = trio.current_time()
        assert await hears(stranger) == b""
        assert trio.current_time() - began == pytest.approx(PROVE_S, abs=0.5)
        nursery.cancel_scope.cancel()


async def test_a_node_that_does_not_answer_is_given_up_in_time() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    number = listeners[0].socket.getsockname()[1]
    began = trio.current_time()
    with pytest.raises(NotTaken, match="node 'hung' cannot be reached"):
        await call(BY_SECRET, NodeAddresses("hung", internal=f"127.0.0.1:{number}"), REQUEST)
    assert trio.current_time() - began == pytest.approx(CALL_S, abs=0.5)
    await listeners[0].aclose()


@pytest.mark.real_time
@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:1"])
async def test_an_unreachable_address_is_one_sentence(address: str) -> None:
    with pytest.raises(NotTaken, match="node 'lost' cannot be reached"):
        await call(BY_SECRET, NodeAddresses("lost", internal=address), REQUEST)


def test_settings_without_any_proof_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a secret, or certificates"):
        InternalSettings("node")


# With TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of the cluster's authority, and of another one."""
    where = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "theirs"):
        make_certificate(where, name, make_certificate(where, f"{name}-ca"))
    return where


def by_tls(files: Path, name: str = "ours", authority: str = "ours") -> InternalSettings:
    tls = tls_of(files / f"{name}.crt", files / f"{name}.key", files / f"{authority}-ca.crt")
    return InternalSettings("node", tls=tls)


@pytest.mark.real_time
async def test_by_tls_a_client_is_served_and_either_end_may_end_first(files: Path) -> None:
    settings = by_tls(files)
    port = Port(settings)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        await talk(await call(settings, port.address, REQUEST))
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
@pytest.mark.parametrize(("shows", "trusts"), [("theirs", "ours"), ("ours", "theirs")])
async def test_by_tls_a_certificate_of_another_authority_is_refused(
    files: Path, shows: str, trusts: str
) -> None:
    settings = by_tls(files)
    port = Port(settings)
    async with trio.open_nursery() as nursery:
        await port.serve(nursery)
        with pytest.raises(NotTaken, match="cannot be reached"):
            await call(by_tls(files, shows, trusts), port.address, REQUEST)
        with pytest.raises(NotTaken, match="cannot be reached"):
            await call(BY_SECRET, port.address, REQUEST)
        await port.check()
        assert len(port.echo.asked) == 1
        nursery.cancel_scope.cancel()


# Beside a client


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with in_thread(two_nodes(), tmp_path_factory.mktemp("nodes")) as both:
        yield both


def asked(node: Node, request: Request) -> bytes:
    """The answer to a node that knows the secret."""
    with socket.create_connection(("127.0.0.1", node.internal_port), 10) as sock:
        asking = Asking(SECRET, "odd", bytes(range(32)), request)
        sock.sendall(asking.hello())
        heard = b""
        while not (asked_for := asking.receive(sock.recv(4096))):
            pass
        sock.sendall(asked_for)
        while data := sock.recv(4096):
            heard += data
            try:
                asking.receive(data)
                if asking.accepted() is not None:
                    return b"accepted"
            except CallRefused as refused:
                return str(refused).encode()
        return heard


def test_a_canary_lives_beside_hostile_connections(nodes: Nodes) -> None:
    canary = nodes.second.connect().channel()
    canary.queue_declare("canary", durable=True)
    canary.confirm_delivery()
    for number, data in enumerate([*HOSTILE.values()] * 5):
        with socket.create_connection(("127.0.0.1", nodes.first.internal_port), 10) as sock:
            sock.sendall(data)
            canary.basic_publish("", "canary", str(number).encode())
    for document in (b"", b"\xff" * 500, b"\x04userS\0\0\0\x05guest"):
        refusal = asked(nodes.first, Request("amqp", "public/default", document))
        assert refusal.startswith(b"expected an admission of AMQP: ")
        canary.basic_publish("", "canary", document)
    assert canary.queue_declare("canary", passive=True).method.message_count == 48
    canary.connection.close()


def test_a_node_that_does_not_lead_accepts_no_client(nodes: Nodes) -> None:
    connection = nodes.first.connect()
    connection.close()
    request = Request("amqp", "public/default", _document(nodes))
    assert asked(nodes.second, request) == b"node 'second' does not lead public/default"
    other = Request("amqp", "public/other", request.document)
    assert b"is public/default here, and not public/other" in asked(nodes.first, other)


def _document(nodes: Nodes) -> bytes:
    from arneb_amqp.server.admission.admission_document import encode_admission
    from arneb_amqp.server.transport.remote import Remote
    from arneb_amqp.session.connection.admission import Admission, Terms

    return encode_admission(Admission("guest", None, Terms({}, "PLAIN", 9, 4096, 0), "/"), Remote())


def test_the_answer_names_the_node_that_asks() -> None:
    asking, answering = (
        Asking(SECRET, "me", bytes(32), REQUEST),
        Answering(SECRET, "you", b"n" * 32),
    )
    answering.receive(asking.receive(answering.receive(asking.hello())))
    assert "me" in repr(answering)
