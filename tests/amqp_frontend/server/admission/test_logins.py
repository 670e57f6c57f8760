"""Who is admitted and who is disconnected: logins, limits, deleted users and vhosts."""

import re
import socket
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pamqp.commands import Connection
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAuthenticationError,
)
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread, wait
from tests.amqp_frontend.server.test_rights import Change, change

from arneb_amqp.config import AmqpConfig, User
from arneb_amqp.wire.constants import CHANNEL_ZERO, PROTOCOL_HEADER
from arneb_amqp.wire.methods import encode_method
from arneb_core.access.catalogue import hashed
from arneb_core.access.records import Vhost

ALL = (".*", ".*", ".*")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    path: Path = tmp_path_factory.mktemp("logins") / "data"
    config = AmqpConfig(users=(User("guest", "guest"),), vhosts=("/", "v"), channel_consumers_max=2)
    yield from serve_in_thread(path, config)


def add(broker: Broker, name: str, vhost: str = "/") -> None:
    """A user whose password is its name, with every right in that vhost."""

    async def make() -> None:
        password = await hashed(name)
        async with broker.catalogue.changing() as edit:
            edit.put_user(name, password)
            edit.set_permissions(name, vhost, *ALL)

    broker.call(make)


@contextmanager
def connection_of(
    broker: Broker, user: str, password: str | None = None, vhost: str = "/"
) -> Iterator[Any]:
    credentials = pika.PlainCredentials(user, user if password is None else password)
    connection = broker.connect(credentials=credentials, virtual_host=vhost)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def refusal(broker: Broker, user: str, **where: str) -> str:
    """What a client receives that may not open the vhost."""
    with pytest.raises(AMQPConnectionError) as refused, connection_of(broker, user, **where):
        pass
    match = re.search(r"\(530\) (.*)", str(refused.value.args[0]))
    assert match is not None, refused.value
    return str(literal_eval(match[1])).removeprefix("NOT_ALLOWED - ")


def closing(connection: Any) -> str:
    """What a connection receives when the broker closes it."""
    with pytest.raises(ConnectionClosedByBroker) as closed:
        for _ in range(100):
            connection.process_data_events(0.1)
    return f"{closed.value.reply_code} {closed.value.reply_text}"


def test_a_password_holds_from_the_moment_it_is_set(broker: Broker) -> None:
    add(broker, "changing")
    with connection_of(broker, "changing") as open_one:

        async def set_password() -> None:
            password = await hashed("another")
            async with broker.catalogue.changing() as edit:
                edit.set_password("changing", password)

        broker.call(set_password)
        with pytest.raises(ProbableAuthenticationError), connection_of(broker, "changing"):
            pass
        with connection_of(broker, "changing", "another"):
            pass
        open_one.channel().queue_declare("still-here", exclusive=True)


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "x"), ("guest", "")])
def test_a_failed_login_is_reported_without_a_reason(
    broker: Broker, user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        pytest.raises(ProbableAuthenticationError) as refused,
        connection_of(broker, user, password),
    ):
        pass
    assert "Login was refused using authentication mechanism PLAIN. For details see" in str(
        refused.value
    )
    (line,) = [each.getMessage() for each in caplog.records if "login refused" in each.getMessage()]
    assert line.startswith(f"PLAIN login refused: user '{user}' - ") or "blank password" in line
    assert "(from 127.0.0.1)" in line
    assert not password or f"'{password}'" not in line


@pytest.mark.real_time
def test_other_clients_get_no_reply_to_a_failed_login_before_the_reset(
    broker: Broker,
) -> None:
    with socket.create_connection(("127.0.0.1", broker.port)) as sock:
        sock.sendall(PROTOCOL_HEADER)
        sock.settimeout(10)
        assert sock.recv(65536)[:1] == b"\x01"
        start_ok = Connection.StartOk(
            client_properties={}, mechanism="PLAIN", response="\0guest\0wrong", locale="en_US"
        )
        sock.sendall(encode_method(CHANNEL_ZERO, start_ok))
        sock.settimeout(1.5)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_access_to_a_vhost_needs_a_permission_even_an_empty_one(broker: Broker) -> None:
    add(broker, "elsewhere", "v")
    words = "access to vhost '/' refused for user 'elsewhere'"
    assert refusal(broker, "elsewhere") == words
    change(broker, lambda edit: edit.set_permissions("elsewhere", "/", "", "", ""))
    with connection_of(broker, "elsewhere"):
        pass
    change(broker, lambda edit: edit.clear_permissions("elsewhere", "/"))
    assert refusal(broker, "elsewhere") == words
    assert refusal(broker, "elsewhere", vhost="nowhere") == "vhost nowhere not found"


LIMITS: list[tuple[Change, str]] = [
    (
        lambda edit: edit.set_vhost_limits("v", {"max-connections": 1}),
        "access to vhost 'v' refused for user 'few': connection limit (1) is reached",
    ),
    (
        lambda edit: edit.set_user_limits("few", {"max-connections": 1}),
        "connection refused for user 'few': user connection limit (1) is reached",
    ),
]


@pytest.mark.parametrize(("limit", "words"), LIMITS)
def test_the_number_of_connections_is_limited(broker: Broker, limit: Change, words: str) -> None:
    add(broker, "few", "v")
    change(broker, limit)
    with connection_of(broker, "few", vhost="v"):
        assert refusal(broker, "few", vhost="v") == words
        change(broker, lambda edit: edit.set_user_limits("few", {"max-connections": -1}))
        change(broker, lambda edit: edit.set_vhost_limits("v", {}))
        with connection_of(broker, "few", vhost="v"):
            pass
    change(broker, limit)
    with connection_of(broker, "few", vhost="v"):
        pass
    change(broker, lambda edit: edit.set_user_limits("few", {}))
    change(broker, lambda edit: edit.set_vhost_limits("v", {}))


def test_a_limit_of_zero_admits_no_connection(broker: Broker) -> None:
    add(broker, "none")
    change(broker, lambda edit: edit.set_user_limits("none", {"max-connections": 0}))
    assert refusal(broker, "none").endswith("user connection limit (0) is reached")


def test_the_number_of_channels_of_a_user_is_limited(broker: Broker) -> None:
    add(broker, "channels")
    change(broker, lambda edit: edit.set_user_limits("channels", {"max-channels": 2}))
    with connection_of(broker, "channels") as one, connection_of(broker, "channels") as other:
        first = one.channel()
        other.channel()
        first.close()
        one.channel()
        with pytest.raises(ConnectionClosedByBroker, match="user limit of \\(2\\)"):
            other.channel()
        one.close()
    with connection_of(broker, "channels") as one:
        one.channel()
        one.channel()


def test_the_number_of_queues_of_a_vhost_is_limited(broker: Broker) -> None:
    with connection_of(broker, "guest", vhost="v") as connection:
        channel = connection.channel()
        channel.queue_declare("first", durable=True)
        change(broker, lambda edit: edit.set_vhost_limits("v", {"max-queues": 1}))
        channel.queue_declare("first", durable=True)
        with pytest.raises(ChannelClosedByBroker) as refused:
            channel.queue_declare("second")
        assert refused.value.reply_text == (
            "PRECONDITION_FAILED - cannot declare queue 'second': queue limit in vhost 'v' (1) "
            "is reached"
        )
        connection.channel().queue_delete("first")
        connection.channel().queue_declare("second", exclusive=True)
    change(broker, lambda edit: edit.set_vhost_limits("v", {}))


def test_the_number_of_consumers_of_a_channel_is_limited(broker: Broker) -> None:
    with connection_of(broker, "guest") as connection:
        channel = connection.channel()
        channel.queue_declare("consumed", exclusive=True)
        for _ in range(2):
            channel.basic_consume("consumed", lambda *_: None)
        with pytest.raises(
            ConnectionClosedByBroker, match=r"reached maximum \(2\) of consumers per channel"
        ):
            channel.basic_consume("consumed", lambda *_: None)


def test_deleting_a_user_closes_its_connections_and_no_others(
    broker: Broker,
) -> None:
    add(broker, "gone")
    with connection_of(broker, "gone") as gone, connection_of(broker, "guest") as stays:
        gone.channel()
        change(broker, lambda edit: edit.delete_user("gone"))
        assert closing(gone) == "320 CONNECTION_FORCED - user 'gone' is deleted"
        stays.channel().queue_declare("stays", exclusive=True)
    with pytest.raises(ProbableAuthenticationError), connection_of(broker, "gone"):
        pass


def test_deleting_a_vhost_closes_its_connections_and_removes_its_content(
    broker: Broker,
) -> None:
    async def make() -> None:
        async with broker.catalogue.changing() as edit:
            edit.put_vhost("leaving")
            edit.set_permissions("guest", "leaving", *ALL)

    broker.call(make)
    with connection_of(broker, "guest", vhost="leaving") as leaving:
        channel = leaving.channel()
        channel.exchange_declare("x", durable=True)
        for number in range(20):
            channel.queue_declare(f"q{number}", durable=True)
            channel.queue_bind(f"q{number}", "x")
        channel.basic_publish("x", "", b"lost")
        with connection_of(broker, "guest") as stays:
            stays.channel().queue_declare("q0", exclusive=True)
            broker.call(broker.catalogue.delete_vhost, "leaving")
            assert closing(leaving) == "320 CONNECTION_FORCED - vhost 'leaving' is deleted"
            stays.channel().queue_declare("q0", passive=True)
    assert refusal(broker, "guest", vhost="leaving") == "vhost leaving not found"

    async def left() -> list[object]:
        topics = [each for each in broker.engine.topics if "/leaving/" in each]
        rows = [key for key in broker.engine.metadata("amqp/") if "/leaving/" in key]
        return [*topics, *rows, *filter(None, [broker.catalogue.get(Vhost, "leaving")])]

    assert broker.call(left) == []
    broker.call(make)
    with connection_of(broker, "guest", vhost="leaving") as again:
        channel = again.channel()
        with pytest.raises(ChannelClosedByBroker, match="no queue 'q0'"):
            channel.queue_declare("q0", passive=True)


def test_a_vhost_created_while_the_broker_runs_can_be_used_at_once(broker: Broker) -> None:
    change(broker, lambda edit: edit.put_vhost("new"))
    assert refusal(broker, "guest", vhost="new") == (
        "access to vhost 'new' refused for user 'guest'"
    )
    change(broker, lambda edit: edit.set_permissions("guest", "new", *ALL))
    with connection_of(broker, "guest", vhost="new") as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"in new")
        got: list[bytes] = []
        channel.basic_consume("q", lambda *delivered: got.append(delivered[-1]), auto_ack=True)
        wait(channel, lambda: bool(got))
    assert "persistent://public/new/q" in broker.engine.topics


def test_a_new_secret_is_accepted(broker: Broker) -> None:
    with connection_of(broker, "guest") as connection:
        connection.update_secret("another", "because")
        connection.channel()


def test_users_may_be_restricted_to_this_machine(tmp_path: Path) -> None:
    config = AmqpConfig(users=(User("a", "p", loopback_only=True), User("b", "p")))
    assert config.is_loopback_only("a")
    assert not config.is_loopback_only("b")
    assert config.is_loopback_only("guest")
    assert not AmqpConfig(loopback_users=()).is_loopback_only("other")
