"""Links over TLS: data goes both ways until the end, and what one read brings is one piece."""

import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from arneb.listening.handshakes import Handshakes
from arneb_amqp.server.transport.secured_link import SecuredLink
from arneb_amqp.server.transport.tls import SecuredListener, serve_secured
from arneb_core.api.connections.tls_records import TlsRecords

HANDSHAKE_S = 5.0


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of a server and of its clients."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file: Path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=file)


def do_nothing() -> None:
    """There is room again."""


async def echo(sock: socket.socket, records: TlsRecords) -> None:
    """Sends back what it receives until the end."""
    async with trio.open_nursery() as nursery:
        link = SecuredLink(sock, nursery, 0, do_nothing, records)
        while data := await link.receive():
            link.send(data)
            await link.room()
        link.finish()
        link.close()


async def refuse(sock: socket.socket, records: TlsRecords) -> None:
    """Sends one message and closes."""
    async with trio.open_nursery() as nursery:
        link = SecuredLink(sock, nursery, 0, do_nothing, records)
        link.send(b"no")
        link.finish()
        link.close()


@pytest.mark.real_time
async def test_data_goes_both_ways_until_the_end(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).records)
    for serve in (echo, refuse):
        async with trio.open_nursery() as nursery:
            plain = await trio.open_tcp_stream("127.0.0.1", port)
            accepted = await secured.accept()
            nursery.start_soon(serve_secured, accepted, HANDSHAKE_S, serve)
            client = trio.SSLStream(
                plain, contexts[1], server_hostname="localhost", https_compatible=True
            )
            if serve is echo:
                sent = bytes(1 << 20)
                nursery.start_soon(client.send_all, sent)
                heard = b""
                while len(heard) < len(sent):
                    heard += await client.receive_some()
                assert heard == sent
            else:
                assert await client.receive_some() == b"no"
                assert await client.receive_some() == b""
            await client.aclose()
    await secured.aclose()


@pytest.mark.real_time
async def test_data_sent_together_with_the_end_of_the_handshake_is_received(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """The end of the handshake and the first data are one write, which is read at once."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).records)
    heard: list[bytes] = []

    async def serve(sock: socket.socket, records: TlsRecords) -> None:
        async with trio.open_nursery() as nursery:
            link = SecuredLink(sock, nursery, 0, do_nothing, records)
            heard.append(await link.receive())
            link.finish()
            link.close()

    def client() -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = contexts[1].wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", port)) as plain:
            while not outgoing.pending:
                try:
                    tls.do_handshake()
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(1 << 16))
            tls.write(b"early")
            plain.sendall(outgoing.read())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, client)
        await serve_secured(await secured.accept(), HANDSHAKE_S, serve)
    assert heard == [b"early"]
    await secured.aclose()


@pytest.mark.real_time
async def test_records_that_arrive_together_are_one_piece(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """A client library writes one record per message. To hand them on one at a time would mean as
    many reads, runs and commits."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).records)
    links, over = list[SecuredLink](), trio.Event()

    async def serve(sock: socket.socket, records: TlsRecords) -> None:
        async with trio.open_nursery() as nursery:
            links.append(SecuredLink(sock, nursery, 0, do_nothing, records))
            await over.wait()

    def client() -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            contexts[1].wrap_socket(plain, server_hostname="localhost") as tls,
        ):
            for number in range(100):
                tls.sendall(b"message %03d" % number)
            tls.recv(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, client)
        nursery.start_soon(serve_secured, await secured.accept(), HANDSHAKE_S, serve)
        heard = b""
        with trio.fail_after(20):
            while not links:
                await trio.testing.wait_all_tasks_blocked()
            [link] = links
            while not heard:
                heard += await link.receive(1 << 20)
            while len(heard) < 1_100:
                heard += await link.receive(1 << 20)
        assert heard == b"".join(b"message %03d" % number for number in range(100))
        link.send(b"x")
        assert await link.receive() == b"", "close_notify is the end of the stream"
        link.close()
        over.set()
    await secured.aclose()


@pytest.mark.real_time
async def test_hundreds_of_records_fill_a_read_as_far_as_it_may_be_filled(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = contexts[1].wrap_bio(incoming, outgoing, server_hostname="localhost")
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    async def shake() -> None:
        while True:
            try:
                tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                theirs.send(outgoing.read())
                await trio.lowlevel.wait_readable(theirs)
                incoming.write(theirs.recv(1 << 16))
            finally:
                if outgoing.pending:
                    theirs.send(outgoing.read())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shake)
        records = await Handshakes(contexts[0]).records(stream)
    for _ in range(200):
        tls.write(bytes(100))
    theirs.send(outgoing.read())
    async with trio.open_nursery() as nursery:
        link = SecuredLink(
            socket.socket(fileno=stream.socket.detach()), nursery, 0, do_nothing, records
        )
        received = await link.receive(16 * 1024)
        assert link.reads == 1
        assert link.filled, "more is buffered, and must be read"
        assert 12_000 < len(received) < 16 * 1024
        received += link.receive_now(1 << 20)
        assert received == bytes(20_000)
        link.close()
    theirs.close()


@pytest.mark.real_time
async def test_a_client_that_disappears_leaves_nothing_behind(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).records)
    for says in (b"", b"no handshake at all" * 20):
        async with trio.open_nursery() as nursery:
            plain = await trio.open_tcp_stream("127.0.0.1", port)
            nursery.start_soon(serve_secured, await secured.accept(), HANDSHAKE_S, echo)
            if says:
                await plain.send_all(says)
            await plain.aclose()
    async with trio.open_nursery() as nursery:
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        nursery.start_soon(serve_secured, await secured.accept(), HANDSHAKE_S, echo)
        client = trio.SSLStream(
            plain, contexts[1], server_hostname="localhost", https_compatible=True
        )
        await client.send_all(b"x")
        assert await client.receive_some() == b"x"
        await plain.aclose()
    await secured.aclose()
