"""TLS taken off before a connection, over pairs of sockets."""

import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from arneb.handshakes import Handshakes
from arneb_amqp.server import tls as tls_module
from arneb_amqp.server.tls import Agreed, SecuredListener, serve_secured

HANDSHAKE_S = 5.0


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server and of its clients."""
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


async def echo(sock: socket.socket, _: Agreed) -> None:
    """Says what it hears until it hears the end."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    async with stream:
        async for data in stream:
            await stream.send_all(data)


async def refuse(sock: socket.socket, _: Agreed) -> None:
    """Says one thing and ends."""
    sock.send(b"no")
    sock.close()


@pytest.mark.real_time
async def test_what_is_inside_goes_both_ways_until_an_end(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).secure)
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


async def flood(sock: socket.socket, _: Agreed) -> None:
    """Says more than anybody takes, then ends."""
    with trio.move_on_after(0.2), trio.socket.from_stdlib_socket(sock) as ours:
        while True:
            await ours.send(bytes(1 << 20))


@pytest.mark.real_time
async def test_a_client_that_reads_nothing_is_left(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_module, "FAREWELL_S", 0.05)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).secure)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            plain = await trio.open_tcp_stream("127.0.0.1", port)
            nursery.start_soon(serve_secured, await secured.accept(), HANDSHAKE_S, flood)
            client = trio.SSLStream(
                plain, contexts[1], server_hostname="localhost", https_compatible=True
            )
            await client.do_handshake()
    await plain.aclose()
    await secured.aclose()


@pytest.mark.real_time
async def test_a_client_that_goes_without_a_word_leaves_nothing(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    secured = SecuredListener(listeners[0], Handshakes(contexts[0]).secure)
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
