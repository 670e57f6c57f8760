"""Reloading: what can change does at once, what cannot is reported, and wrong settings change
nothing."""

import http.client
import logging
import signal
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from conformance.brokers.certificates import make_certificate
from passlib.hash import apr_md5_crypt
from tests.broker.node_kit import steered

from arneb.node import process
from arneb.settings.config import Config, ConfigInvalid, load_config
from arneb.settings.process import LogLevel
from arneb.settings.reloading import Reloading, changed
from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.services.clients.authenticator import Authenticator


@pytest.fixture(autouse=True)
def no_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that continues, and keeps its signal handlers and its log level."""
    monkeypatch.setattr(process, "break_off_after", lambda seconds, say: None)
    monkeypatch.setattr(process.signal, "signal", lambda *args: None)  # type: ignore[attr-defined]
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


async def test_reloadable_parts_are_called_and_the_rest_is_reported() -> None:
    before = Config()
    now = replace(before, log=replace(before.log, level=LogLevel.DEBUG), data_dir=Path("elsewhere"))
    reloading, seen = Reloading(lambda: now), list[Config]()

    async def follow(config: Config) -> None:
        seen.append(config)

    forget = reloading.add("the level", follow, "log.level")
    assert await reloading.run(before) == [
        "the level: reloaded", "data_dir has changed and holds from the next start on",
    ]  # fmt: skip
    assert seen == [now]
    forget()
    assert len(await reloading.run(before)) == 2
    assert seen == [now]


async def test_wrong_settings_change_nothing() -> None:
    def fails() -> Config:
        raise ConfigInvalid("amqp.lissten: no such key")

    async def never(config: Config) -> None:
        raise AssertionError("followed")

    reloading = Reloading(fails)
    reloading.add("anything", never)
    assert await reloading.run(Config()) == ["not reloaded: amqp.lissten: no such key"]
    assert not reloading.is_done


async def test_one_part_that_cannot_reload_does_not_stop_the_others() -> None:
    now = replace(Config(), log=replace(Config().log, level=LogLevel.DEBUG))
    reloading, seen = Reloading(lambda: now), list[str]()

    async def cannot(config: Config) -> None:
        raise OSError("no such file")

    async def follow(config: Config) -> None:
        seen.append("followed")

    reloading.add("the first", cannot, "log.level")
    reloading.add("the second", follow)
    assert await reloading.run(Config()) == [
        "the first: not reloaded: no such file", "the second: reloaded",
        "log.level has changed and holds from the next start on",
    ]  # fmt: skip
    assert seen == ["followed"]


def test_settings_that_differ_are_named() -> None:
    assert not list(changed(Config(), Config()))
    other = replace(Config(), amqp=replace(Config().amqp, heartbeat_s=1, users=()))
    assert sorted(changed(Config(), other)) == ["amqp.heartbeat_s", "amqp.users"]


def serial_at(port: int) -> int:
    """The serial number of the certificate that a server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain) as stream,
    ):
        from cryptography.x509 import load_der_x509_certificate

        shown = stream.getpeercert(binary_form=True)
        assert shown is not None
        return load_der_x509_certificate(shown).serial_number


@pytest.mark.real_time
async def test_new_clients_get_the_new_certificate_and_a_broken_one_is_not_used(
    tmp_path: Path,
) -> None:
    make_certificate(tmp_path, "server")
    file = tmp_path / "arneb.toml"
    file.write_text(
        '[amqp.tls]\nlisten = "127.0.0.1:0"\ncertificate = "server.crt"\nkey = "server.key"\n'
        '[amqp]\nlisten = "off"\n'.replace("[amqp]\nlisten", "[http]\nlisten")
    )
    off = dict.fromkeys(("amqp", "pulsar", "http", "http_pulsar"), "off")

    def load() -> Config:
        return load_config(file, data_dir=tmp_path / "data", **off)  # type: ignore[arg-type]

    async with steered(load(), Reloading(load)) as node:
        [line] = [each for each in node.printed if each.startswith("amqp-tls ready on ")]
        port = int(line.rpartition(":")[2])
        first = await trio.to_thread.run_sync(serial_at, port)
        make_certificate(tmp_path, "server")
        assert await trio.to_thread.run_sync(serial_at, port) == first
        node.signals.send(signal.SIGHUP)
        await node.until("the certificates of amqp: reloaded")
        second = await trio.to_thread.run_sync(serial_at, port)
        assert second != first
        (tmp_path / "server.key").write_text("none")
        node.signals.send(signal.SIGHUP)
        with trio.fail_after(10):
            while not any("not reloaded" in each for each in node.printed):
                await node.until(node.printed[-1])
                await trio.lowlevel.checkpoint()
        assert await trio.to_thread.run_sync(serial_at, port) == second


def status_as(port: int, password: str) -> int:
    """The answer to an administrator with that password."""
    proof = b64encode(f"ann:{password}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/admin/v2/tenants", headers={"authorization": f"Basic {proof}"})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.real_time
async def test_passwords_and_keys_of_pulsar_clients_are_read_again(tmp_path: Path) -> None:
    users, file = tmp_path / "users", tmp_path / "arneb.toml"

    def set_password(password: str) -> None:
        users.write_text(f"ann:{apr_md5_crypt.hash(password)}\n")

    set_password("first")
    file.write_text('[pulsar.authentication]\nmethods = ["basic"]\nbasic_file = "users"\n')
    listens = dict.fromkeys(("amqp", "pulsar", "http"), "off") | {"http_pulsar": "127.0.0.1:0"}

    def load() -> Config:
        return load_config(file, data_dir=tmp_path / "data", **listens)  # type: ignore[arg-type]

    async with steered(load(), Reloading(load)) as node:
        [line] = [each for each in node.printed if each.startswith("http-pulsar ready on ")]
        status = partial(trio.to_thread.run_sync, status_as, int(line.rpartition(":")[2]))
        assert (await status("first"), await status("second")) == (200, 401)
        set_password("second")
        assert await status("first") == 200
        node.signals.send(signal.SIGHUP)
        await node.until("keys and passwords of Pulsar's clients: reloaded")
        assert (await status("first"), await status("second")) == (401, 200)
        users.write_text("no user here")
        node.signals.send(signal.SIGHUP)
        with trio.fail_after(10):
            while not any(each.startswith("not reloaded") for each in node.printed):
                await node.until(node.printed[-1])
                await trio.lowlevel.checkpoint()
        assert await status("second") == 200


async def test_other_methods_of_authentication_need_a_restart() -> None:
    authenticator = Authenticator(Proofs(certificates=True))
    with pytest.raises(ValueError, match="need a restart"):
        authenticator.use(Proofs())
    authenticator.use(Proofs(certificates=True))
    assert authenticator.asks
