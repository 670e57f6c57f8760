"""Names of queues and topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.topology.names import decode, encode, queue_of, topic_of


@pytest.mark.parametrize(
    ("queue", "local"),
    [
        ("orders", "orders"),
        ("a.b-c_d:e", "a.b-c_d:e"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("two words", "two%20words"),
        ("größe", "größe"),
        ("tab\t", "tab%09"),
    ],
)
def test_queues_are_topics(queue: str, local: str) -> None:
    topic = f"persistent://public/default/{local}"
    assert topic_of("public/default", queue) == topic
    assert queue_of("public/default", topic) == queue


def test_topics_elsewhere_are_not_queues_of_this_vhost() -> None:
    assert queue_of("public/default", "persistent://public/other/orders") is None


@given(st.text(max_size=60))
def test_encoding_is_undone_by_decoding(name: str) -> None:
    encoded = encode(name)
    assert decode(encoded) == name
    assert not set(encoded) & set("/ \t\n?#")


@given(st.binary(max_size=60))
def test_names_that_are_not_utf_8_survive(raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    assert decode(encode(name)) == name
