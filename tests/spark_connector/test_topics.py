"""Topic names and selections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_arneb.log.topics import (
    TopicSelection,
    full_name,
    partition_index,
    short_name,
    without_partition,
)
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.plan.planning import selected_topics

WORDS = st.text(st.sampled_from("abc.-_%2F"), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("given_name", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("acme/eu/orders", "persistent://acme/eu/orders"),
        ("persistent://acme/eu/orders", "persistent://acme/eu/orders"),
        ("a%2Fb", "persistent://public/default/a%2Fb"),
        ("my queue", "persistent://public/default/my%20queue"),
    ],
)
def test_a_name_is_completed(given_name: str, full: str) -> None:
    assert full_name(given_name) == full


@pytest.mark.parametrize(
    "name", ["", "a/b", "a/b/c/d", "a//c", "non-persistent://a/b/c", "persistent://orders"]
)
def test_a_name_of_another_form_is_refused_with_the_forms_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=r"persistent://"):
        full_name(name)


@given(tenant=WORDS, namespace=WORDS, topic=WORDS)
def test_the_short_name_means_the_same_topic(tenant: str, namespace: str, topic: str) -> None:
    full = f"persistent://{tenant}/{namespace}/{topic}"
    assert full_name(short_name(full)) == full


@pytest.mark.parametrize(
    ("name", "index", "base"),
    [
        ("persistent://public/default/t-partition-12", 12, "persistent://public/default/t"),
        ("persistent://public/default/t-partition-x", -1, None),
        ("persistent://public/default/t-partition-", -1, None),
        ("persistent://public/default/t", -1, None),
        ("persistent://public/default/t-partition-99999999999", -1, None),
    ],
)
def test_a_partition_is_known_by_its_suffix(name: str, index: int, base: str | None) -> None:
    assert partition_index(name) == index
    assert without_partition(name) == (base or name)


PRESENT = [
    "persistent://public/default/orders",
    "persistent://public/default/orders-old",
    "persistent://public/default/clicks-partition-0",
    "persistent://public/default/clicks-partition-1",
    "persistent://acme/eu/orders",
]


def chosen(**selection: object) -> tuple[list[str], list[str]]:
    found, missing = TopicSelection(**selection).choose(PRESENT)  # type: ignore[arg-type]
    return [short_name(name) for name in found], [short_name(name) for name in missing]


def test_a_name_selects_exactly_its_topic() -> None:
    assert chosen(names=(full_name("orders"),)) == (["orders"], [])


def test_a_partitioned_topics_name_selects_its_partitions() -> None:
    assert chosen(names=(full_name("clicks"),)) == (
        ["clicks-partition-0", "clicks-partition-1"],
        [],
    )


def test_a_partition_can_be_selected_alone() -> None:
    assert chosen(names=(full_name("clicks-partition-1"),)) == (["clicks-partition-1"], [])


def test_partitions_are_selected_by_number_and_a_topic_without_some_is_its_first() -> None:
    clicks, orders = full_name("clicks"), full_name("orders")
    assert chosen(partitions=((clicks, 1), (orders, 0))) == (["clicks-partition-1", "orders"], [])
    assert chosen(partitions=((clicks, 0), (clicks, 2))) == (
        ["clicks-partition-0"],
        ["clicks-partition-2"],
    )
    assert chosen(partitions=((orders, 1),)) == ([], ["orders-partition-1"])


class Named:
    """A source that has names."""

    def topics(self) -> list[str]:
        return PRESENT


@pytest.mark.parametrize(
    ("topic", "number", "problem"),
    [
        ("clicks", 2, "no partition 2 of topic clicks, which has 2"),
        ("orders", 1, "no partition 1 of topic orders, which has 1"),
        ("click", 0, "no topic click; did you mean clicks?"),
    ],
)
def test_a_missing_partition_is_distinguished_from_a_missing_topic(
    topic: str, number: int, problem: str
) -> None:
    selection = TopicSelection(partitions=((full_name(topic), number),))
    with pytest.raises(OptionError) as refused:
        selected_topics(Named(), selection)  # type: ignore[arg-type]
    assert str(refused.value) == f'option "assign": {problem}'


HIDDEN = ("amqp-delayed://shop/later", full_name("__change_events"))


def test_a_pattern_selects_internal_logs_only_if_that_is_asked_for() -> None:
    present = [*PRESENT, *HIDDEN]
    assert not set(HIDDEN) & set(TopicSelection(pattern=".*").choose(present)[0])
    found, _ = TopicSelection(pattern=".*", internal=True).choose(present)
    assert set(HIDDEN) <= set(found)
    for name in HIDDEN:
        assert TopicSelection(names=(full_name(name),)).choose(present) == ([name], [])


def test_names_that_match_nothing_are_missing() -> None:
    names = (full_name("orders"), full_name("order"))
    assert chosen(names=names) == (["orders"], ["order"])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-old"]),
        ("acme/.*", ["acme/eu/orders"]),
        ("public/default/o.*", ["orders", "orders-old"]),
        ("persistent://.*/orders", ["acme/eu/orders", "orders"]),
        ("nothing", []),
    ],
)
def test_a_pattern_matches_any_form_of_the_whole_name(pattern: str, found: list[str]) -> None:
    assert chosen(pattern=pattern) == (found, [])
