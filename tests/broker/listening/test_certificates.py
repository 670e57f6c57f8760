"""Certificates: shown, renewed while clients are connected, refused if broken, and announced before
they expire."""

import logging
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
from conformance.brokers.certificates import make_certificate
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.server.senders import CERTIFICATE
from arneb.http.server.server import ByTls, serve_http
from arneb.listening.certificates import Certificates
from arneb.metrics.own import certificate_figures
from arneb.settings.config import Config
from arneb.settings.tls import TlsConfig, TlsVersion, expires_at, read_tls
from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.services.clients.authenticator import Authenticator

pytestmark = pytest.mark.real_time


@dataclass(frozen=True)
class Files:
    """A directory with ``root``, ``server``, ``me`` and ``next``, each with its key."""

    at: Path

    @property
    def config(self) -> TlsConfig:
        return TlsConfig(self.at / "server.crt", self.at / "server.key", self.at / "root.crt")

    def install(self, name: str, *suffixes: str) -> None:
        """Make the server show another certificate from now on, or break its files."""
        for suffix in suffixes or ("crt", "key"):
            shutil.copy(self.at / f"{name}.{suffix}", self.at / f"new.{suffix}")
            os.replace(self.at / f"new.{suffix}", self.at / f"server.{suffix}")

    def client(self, name: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.at / "root.crt")
        if name:
            context.load_cert_chain(self.at / f"{name}.crt", self.at / f"{name}.key")
        return context

    def serial(self, name: str) -> int:
        return int(_decoded(self.at / f"{name}.crt")["serialNumber"], 16)


def _decoded(file: Path) -> dict[str, str]:
    found: dict[str, str] = ssl._ssl._test_decode_cert(str(file))  # type: ignore[attr-defined]
    return found


@pytest.fixture
def files(tmp_path: Path) -> Files:
    root = make_certificate(tmp_path, "root")
    for name in ("server", "me", "next"):
        make_certificate(tmp_path, name, root)
    shutil.copy(tmp_path / "server.crt", tmp_path / "first.crt")
    return Files(tmp_path)


async def says_who(scope: Scope, receive: Receive, send: Send) -> None:
    certificate = scope["extensions"][CERTIFICATE]
    body = {"path": Request(scope).url.path, "subject": certificate.get("subject", [])}
    await JSONResponse(body)(scope, receive, send)


@dataclass
class Port:
    """An HTTPS port, and the certificates that it shows."""

    number: int
    certificates: Certificates
    sockets: list[trio.SocketStream] = field(default_factory=list)

    async def reload(self) -> None:
        await self.certificates.follow("http", Config())

    async def connect(self, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
        raw = await trio.open_tcp_stream("127.0.0.1", self.number)
        self.sockets.append(raw)
        stream = trio.SSLStream(raw, context, server_hostname="127.0.0.1")
        await stream.do_handshake()
        return stream

    async def shown(self, context: ssl.SSLContext) -> int:
        """The serial number of the certificate that a new client sees."""
        stream = await self.connect(context)
        try:
            return serial(stream)
        finally:
            await trio.aclose_forcefully(stream)


def serial(stream: trio.SSLStream[trio.SocketStream]) -> int:
    return int(stream.getpeercert()["serialNumber"], 16)  # type: ignore[index]


async def ask(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    await stream.send_all(b"GET /x HTTP/1.1\r\nhost: here\r\n\r\n")
    answer = b""
    with trio.fail_after(10):
        while b"}" not in answer:
            answer += await stream.receive_some()
    return answer


@asynccontextmanager
async def serving(config: TlsConfig, app: ASGIApp = says_who) -> AsyncIterator[Port]:
    certificates = Certificates({"http": config})
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    by_tls = ByTls(listeners, certificates.handshakes("http").secure)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, app, [], by_tls=by_tls))
        port = Port(listeners[0].socket.getsockname()[1], certificates)
        yield port
        for each in port.sockets:
            await trio.aclose_forcefully(each)
        nursery.cancel_scope.cancel()


async def test_an_http_port_uses_tls_and_identifies_its_clients(files: Files) -> None:
    async with serving(files.config) as port:
        for name, subject in (("", b'"subject":[]'), ("me", b'[[["commonName","me"]]]')):
            stream = await port.connect(files.client(name))
            first, second = await ask(stream), await ask(stream)
            assert first.startswith(b"HTTP/1.1 200")
            assert subject in first
            assert second.startswith(b"HTTP/1.1 200")
            await trio.aclose_forcefully(stream)
        untrusting = ssl.create_default_context()
        with pytest.raises(trio.BrokenResourceError):
            await port.connect(untrusting)
        assert await port.shown(files.client()) == files.serial("server")


async def test_new_clients_see_a_renewed_certificate_and_old_ones_stay_connected(
    files: Files,
) -> None:
    async with serving(files.config) as port:
        old = await port.connect(files.client())
        files.install("next")
        assert await port.shown(files.client()) == files.serial("first"), (
            "the old certificate is shown until the files are looked at"
        )
        await port.certificates.look()
        assert await port.shown(files.client()) == files.serial("first"), (
            "a file that has just changed may be half written"
        )
        await port.certificates.look()
        assert await port.shown(files.client()) == files.serial("next")
        assert (await ask(old)).startswith(b"HTTP/1.1 200")
        assert serial(old) == files.serial("first")
        await trio.aclose_forcefully(old)


async def test_it_is_read_at_once_on_request(files: Files) -> None:
    async with serving(files.config) as port:
        files.install("next")
        await port.reload()
        assert await port.shown(files.client()) == files.serial("next")


@pytest.mark.parametrize("broken", ["other key", "nonsense", "missing"])
async def test_unusable_files_change_nothing_and_are_reported_once(
    files: Files, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(files.config) as port:
        caplog.clear()
        if broken == "other key":
            files.install("next", "key")
        elif broken == "nonsense":
            (files.at / "server.crt").write_text("no certificate")
        else:
            (files.at / "server.crt").unlink()
        for _ in range(4):
            await port.certificates.look()
        assert await port.shown(files.client()) == files.serial("first")
        errors = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert len(errors) == 1
        assert errors[0].startswith("http keeps its certificate: ")
        with pytest.raises(ValueError, match="certificate and key"):
            await port.reload()
        files.install("next")
        for _ in range(2):
            await port.certificates.look()
        assert await port.shown(files.client()) == files.serial("next")


async def test_the_authority_of_clients_may_change_too(files: Files) -> None:
    config = replace(files.config, require_client_certificate=True)
    other = make_certificate(files.at, "other-root")
    make_certificate(files.at, "stranger", other)
    async with serving(config) as port:
        assert (await ask(await port.connect(files.client("me")))).startswith(b"HTTP/1.1 200")
        (files.at / "root.crt").rename(files.at / "old-root.crt")
        shutil.copy(files.at / "other-root.crt", files.at / "root.crt")
        await port.reload()
        context = ssl.create_default_context(cafile=files.at / "old-root.crt")
        context.load_cert_chain(files.at / "me.crt", files.at / "me.key")
        stream = await port.connect(context)  # TLS 1.3: the client learns of it when it reads
        with pytest.raises(trio.BrokenResourceError):
            await ask(stream)
        await trio.aclose_forcefully(stream)


def test_the_log_says_which_certificates_expire_soon(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    end = expires_at(files.at / "server.crt")
    assert end is not None
    now = [end - timedelta(days=31)]
    certificates = Certificates({"amqp": files.config}, lambda: now[0])
    certificates.warn()
    assert not caplog.records
    now[0] = end - timedelta(days=29, hours=23)
    certificates.warn()
    certificates.warn()
    assert [each.getMessage() for each in caplog.records] == [
        f"the certificate of amqp expires in 29 days, at {end.isoformat(timespec='seconds')}"
    ]
    now[0] = end
    certificates.warn()
    assert "expired at" in caplog.records[-1].getMessage()
    figures = certificate_figures(certificates.expiries)
    line = 'arneb_tls_certificate_expiry_timestamp_seconds{listener="amqp"}'
    assert f"{line} {end.timestamp()}" in figures


def test_versions_and_ciphers_can_be_chosen(files: Files) -> None:
    assert read_tls(files.config).minimum_version is ssl.TLSVersion.TLSv1_2
    strict = replace(files.config, minimum_version=TlsVersion.TLS_1_3, ciphers="ECDHE+AESGCM")
    context = read_tls(strict)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    old = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert old
    assert all("ECDHE" in each and "GCM" in each for each in old)
    with pytest.raises(ValueError, match="ciphers: OpenSSL knows none in 'NOPE'"):
        read_tls(replace(files.config, ciphers="NOPE"))


async def test_an_old_client_is_refused_where_the_new_version_is_required(files: Files) -> None:
    async with serving(replace(files.config, minimum_version=TlsVersion.TLS_1_3)) as port:
        context = files.client()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(trio.BrokenResourceError):
            await port.connect(context)
        assert await port.shown(files.client()) == files.serial("server")


async def test_a_certificate_proves_a_role_to_the_admin_api() -> None:
    authenticator = Authenticator(Proofs(certificates=True))
    shown = {"subject": ((("commonName", "me"),),)}
    assert await authenticator.caller("", "", shown) == Caller("me")
    assert await authenticator.caller("", "ann", shown) == Caller("me", "ann")
    for certificate in ({}, {"subject": ()}):
        assert await authenticator.caller("", "", certificate) is None
    assert await Authenticator(Proofs()).caller("", "", shown) == Caller()
