"""Topic names, as Pulsar completes and refuses them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.names import InvalidTopicName, parse_namespace, parse_topic


@pytest.mark.parametrize(
    ("name", "whole", "partition"),
    [
        ("orders", "persistent://public/default/orders", -1),
        ("t/n/orders", "persistent://t/n/orders", -1),
        ("persistent://t/n/orders-partition-12", "persistent://t/n/orders-partition-12", 12),
        ("non-persistent://t/n/x", "non-persistent://t/n/x", -1),
        ("a%2Fb", "persistent://public/default/a%2Fb", -1),
        ("with space", "persistent://public/default/with space", -1),
        ("x-partition-012", "persistent://public/default/x-partition-012", -1),
        ("x-partition--1", "persistent://public/default/x-partition--1", -1),
    ],
)
def test_names_are_completed(name: str, whole: str, partition: int) -> None:
    topic = parse_topic(name)
    assert str(topic) == topic.core_name == whole
    assert topic.partition == partition
    assert topic.is_persistent == whole.startswith("persistent")
    assert parse_topic(whole) == topic


@pytest.mark.parametrize(
    "name",
    [
        "", "/", "a/b", "//x", "http://t/n/x", "persistent://", "persistent://t/n/",
        "persistent://t/n/ ", "persistent://t//x", "persistent://t!/n/x", "a/b/c/d", "x\n", "a\0",
        "é" * 600, "persistent://persistent://t/n/x",
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        parse_topic(name)


@given(st.text(max_size=60))
def test_any_text_is_a_topic_or_refused(name: str) -> None:
    try:
        topic = parse_topic(name)
    except InvalidTopicName:
        return
    assert parse_topic(str(topic)) == topic


@pytest.mark.parametrize("name", ["public", "public/", "/default", "a/b/c", "a b/c"])
def test_a_namespace_is_a_tenant_and_a_name(name: str) -> None:
    assert parse_namespace("public/default") == "public/default"
    with pytest.raises(InvalidTopicName):
        parse_namespace(name)
