"""Broker URIs: read as RabbitMQ's clients read them, and never shown with their secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.client.uris import BrokerUri, InvalidUri, parse_uri


@pytest.mark.parametrize(
    ("text", "host", "port", "vhost"),
    [
        ("amqp://", "", 5672, None),
        ("amqp:///v", "", 5672, "v"),
        ("amqp:///%2F", "", 5672, "/"),
        ("amqp://h", "h", 5672, None),
        ("amqp://h/", "h", 5672, ""),
        ("amqp://h:1/a%2fb", "h", 1, "a/b"),
        ("amqps://u:p@[::1]/v", "::1", 5671, "v"),
    ],
)
def test_host_port_and_vhost_of_a_uri(text: str, host: str, port: int, vhost: str | None) -> None:
    uri = parse_uri(text)
    assert (uri.host, uri.port, uri.vhost) == (host, port, vhost)
    assert uri.is_local is (not host)
    assert uri.tls is text.startswith("amqps")


def test_parameters_of_the_query() -> None:
    query = (
        "heartbeat=5&connection_timeout=2500&cacertfile=/ca&certfile=/c&keyfile=/k"
        "&server_name_indication=name&auth_mechanism=external&verify=verify_peer"
    )
    uri = parse_uri(f"amqps://a%40b:p%2F@h?{query}")
    assert uri == BrokerUri(
        "h", 5671, None, "a@b", "p/", True, 5, 2.5, "/ca", "/c", "/k", True, "name", True,
        "amqps://h",
    )  # fmt: skip
    assert not parse_uri("amqps://h").verifies
    assert parse_uri("amqps://h?cacertfile=/ca").verifies


@pytest.mark.parametrize("text", ["", "http://h", "amqp://h:x", "amqp://h?heartbeat=-1", "//h"])
def test_malformed_uris_are_refused(text: str) -> None:
    with pytest.raises(InvalidUri):
        parse_uri(text)


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=12))
def test_a_password_is_never_shown(password: str) -> None:
    password = f"secret{password}"
    uri = parse_uri(f"amqp://user:{password}@h/v?password={password}")
    assert uri.password == password
    assert password not in uri.shown + repr(BrokerUri("h", password=password))
