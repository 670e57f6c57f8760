"""Who may use which port: what the broker announces at its start is what holds."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
from passlib.hash import apr_md5_crypt
from starlette.types import Message, Receive, Scope, Send
from tests.broker.listening.test_external import Authority as Signer

from arneb.http.access.guarded import PRINCIPAL, Guarded
from arneb.listening.access import access
from arneb.settings.config import Config, ConfigInvalid, load_config
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.authority import Authority
from arneb_core.access.principals import Credentials, Principal, Verdicts
from arneb_core.engine.engine import open_engine
from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.services.clients.authenticator import Authenticator

SECRET = "x" * 40
READY = re.compile(r"([a-z-]+) ready on (\S+)")
EVERYBODY = "open to everyone who can reach it"
MANAGEMENT = "management API requires the password of a user; all else "
LOCKED = "line 2: 'locked' never logs in, its hash is locked"


def config_of(tmp_path: Path, text: str) -> Config:
    (tmp_path / "arneb.toml").write_text(text)
    return load_config(tmp_path / "arneb.toml", data_dir=tmp_path / "data")


@pytest.fixture
def proofs(tmp_path: Path) -> str:
    """The settings that require a token or a password."""
    (tmp_path / "key").write_text(SECRET)
    users = f"me:{apr_md5_crypt.hash('right')}\nlocked:!\nplain:text\n"
    (tmp_path / "users").write_text(users)
    return (
        "[pulsar.authentication]\n"
        f'methods = ["token", "basic"]\ntoken_secret_key = "{tmp_path}/key"\n'
        f'basic_file = "{tmp_path}/users"\n'
    )


def announced(config: Config) -> list[str]:
    """What is printed at the first start."""

    async def main() -> list[str]:
        async with open_engine(config.data_dir) as core:
            catalogue = await open_catalogue(core, config.amqp)
            return list(access(config, catalogue.tables))

    return trio.run(main)


def test_without_settings_guest_may_log_in_and_pulsar_is_open(tmp_path: Path) -> None:
    guests = "requires authentication by password of guest from this machine"
    assert (announced(config_of(tmp_path, ""))) == [
        "amqp: open to guest from this machine, by password",
        f"pulsar: {EVERYBODY}",
        f"http: {MANAGEMENT}{guests}; open to everyone: /healthz, /readyz",
        f"http-pulsar: {EVERYBODY}",
    ]


def test_the_required_credentials_are_named(tmp_path: Path, proofs: str) -> None:
    text = 'amqp.users = [{name = "a", password = "p"}]\nhttp.open_metrics = true\n' + proofs
    over_http = "requires authentication by token, basic, password of a user"
    assert (announced(config_of(tmp_path, text))) == [
        "amqp: open to a, by password",
        "pulsar: requires authentication by token, basic",
        f"http: {MANAGEMENT}{over_http}; open to everyone: /healthz, /readyz, /metrics",
        "http-pulsar: requires authentication by token, basic",
    ]


def test_certificates_and_other_sources_of_users_are_named(tmp_path: Path) -> None:
    authority = Signer(tmp_path)
    pem = authority.sign("localhost", [])
    text = (
        'amqp.users = [{name = "a", password = "p"}]\namqp.external_login = true\n'
        f'amqp.tls = {{listen = "127.0.0.1:0", certificate = "{pem}",'
        f' client_ca = "{authority.file}"}}\n'
        'logins.backends = ["internal", "http"]\n'
    )
    assert announced(config_of(tmp_path, text))[0] == (
        "amqp: open to a, by password, or over TLS by certificate; and to whom http lets in"
    )


def test_it_is_announced_where_roles_need_rights(tmp_path: Path, proofs: str) -> None:
    text = f"{proofs}[access.authorization]\nenabled = true\n"
    lines = announced(config_of(tmp_path, text))
    asked = "requires authentication by token, basic; roles need rights"
    assert {f"pulsar: {asked}", f"http-pulsar: {asked}"} <= set(lines)


def test_authorization_without_authentication_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"expected pulsar.authentication.methods"):
        config_of(tmp_path, "[access.authorization]\nenabled = true\n")


def test_where_only_certificates_count_no_client_without_one_is_admitted(tmp_path: Path) -> None:
    text = (
        'http_pulsar.open_metrics = true\npulsar.authentication.methods = ["tls"]\n'
        'amqp.listen = "off"\npulsar.listen = "off"\n'
        '[pulsar.tls]\ncertificate = "c"\nclient_ca = "ca"\n'
    )
    assert (announced(config_of(tmp_path, text))) == [
        "http: open to nobody; open to everyone: /healthz, /readyz",
        "http-pulsar: open to nobody; open to everyone: /metrics",
    ]


@contextmanager
def serving(tmp_path: Path, text: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A broker's first lines and its HTTP ports."""
    ports = "".join(f'{each}.listen = "127.0.0.1:0"\n' for each in ("http", "http_pulsar"))
    others = 'data_dir = "data"\namqp.listen = "off"\npulsar.listen = "off"\n'
    (tmp_path / "arneb.toml").write_text(ports + others + text)
    command = [sys.executable, "-m", "arneb", "serve", "--config", str(tmp_path / "arneb.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines, found = list[str](), dict[str, str]()
        while len(found) < 2:
            line = process.stdout.readline()
            assert line, f"expected two ports, got {lines}"
            lines.append(line.strip())
            if ready := READY.match(line):
                found[ready[1]] = f"http://{ready[2]}"
        try:
            yield lines, found
        finally:
            process.terminate()


def status(url: str, proof: str = "", method: str = "GET") -> int:
    headers = {"authorization": proof} if proof else {}
    body = b"{}" if method == "PUT" else None
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def basic(user: str) -> str:
    return f"Basic {b64encode(user.encode()).decode()}"


def arneb(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arneb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_clients_that_must_authenticate_must_do_so_on_every_port(
    tmp_path: Path, proofs: str
) -> None:
    with serving(tmp_path, proofs) as (lines, ports):
        http, admin = ports["http"], ports["http-pulsar"]
        guarded = (f"{http}/metrics", f"{http}/api/topics", f"{http}/api/alarms",
                   f"{http}/%6detrics", f"{http}/nothing", f"{admin}/metrics",
                   f"{admin}/admin/v2/clusters")  # fmt: skip
        wrong = ("", basic("me:wrong"), basic("locked:!"), basic("plain:text"), "Bearer x",
                 basic("guest:guest"), "Basic %%%", "Negotiate x")  # fmt: skip
        assert {status(guarded[0], proof) for proof in wrong} == {401}
        for url in guarded:
            # Repeated guesses are answered more and more slowly.
            assert status(guarded[0], basic("me:right")) == 200
            assert {status(url, proof) for proof in ("", basic("me:wrong"))} == {401}, url
        assert status(f"{http}/api/alarms", method="PUT") == 401
        assert status(f"{http}/healthz") == status(f"{http}/readyz") == 200
        for url in (*guarded[:3], *guarded[-2:]):
            assert status(url, basic("me:right")) == 200, url
        assert status(f"{http}/api/alarms", basic("me:right"), "PUT") == 200
        assert any(LOCKED in line for line in lines)
        assert any("line 3: 'plain' never logs in" in line for line in lines)
        over_http = "requires authentication by token, basic"
        assert f"http: {over_http}; open to everyone: /healthz, /readyz" in lines
        refused = arneb("topics", http)
        assert (refused.returncode, "requires authentication" in refused.stderr) == (2, True)
        for command in ("topics", "alarms"):
            assert arneb(command, http.replace("://", "://me:right@")).returncode == 0


def test_metrics_may_be_open_and_named_users_are_required(tmp_path: Path) -> None:
    text = (
        "http.open_metrics = true\n"
        'amqp.users = [{name = "guest", password = "guest", loopback_only = true},'
        ' {name = "me", password = "right"}]\n'
    )
    with serving(tmp_path, text) as (lines, ports):
        http, admin = ports["http"], ports["http-pulsar"]
        assert status(f"{http}/metrics") == 200
        assert status(f"{http}/api/topics") == 401
        assert status(f"{http}/api/topics", basic("guest:guest")) == 401
        assert status(f"{http}/api/topics", basic("me:right")) == 200
        assert status(f"{admin}/admin/v2/clusters") == 200
        assert f"http-pulsar: {EVERYBODY}" in lines


def test_while_no_user_is_configured_guest_may_log_in_but_not_without_a_password(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "") as (_, ports):
        http = ports["http"]
        for path in ("/data/v1/topics", "/api/topics", "/metrics", "/nothing"):
            for proof in ("", basic("guest:wrong"), basic("other:guest"), "Bearer x"):
                assert status(f"{http}{path}", proof) == 401, (path, proof)
            expected = 404 if path == "/nothing" else 200
            assert status(f"{http}{path}", basic("guest:guest")) == expected, path
        assert status(f"{http}/healthz") == status(f"{http}/readyz") == 200
        assert arneb("topics", http).returncode == 0  # it claims to be guest


async def test_guest_may_log_in_from_this_machine_only() -> None:
    class Everybody:
        async def log_in(self, credentials: Credentials) -> Principal:
            return Principal(credentials.name, cast(Verdicts, None))

    answered = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answered.append(scope[PRINCIPAL].name)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answered.append(message["status"])

    users = Authority([Everybody()], lambda name: name == "guest")
    nobody_named = Guarded(app, Authenticator(Proofs()), (), users, has_named=lambda: False)
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.7", "::ffff:10.0.0.7"):
        scope = {
            "type": "http", "path": "/data/v1/topics", "client": (address, 1),
            "headers": [(b"authorization", basic("guest:guest").encode())],
        }  # fmt: skip
        await nobody_named(scope, cast(Receive, None), send)
    assert answered == ["guest", "guest", "guest", 401, 401]
