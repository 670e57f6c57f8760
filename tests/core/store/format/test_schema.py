"""Keys: their order is the order of the log, and foreign bytes are refused."""

from struct import error

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arneb_core.api.entries.position import LedgerId, Position, position_at
from arneb_core.store.format.long_keys import is_long, shorten, unwrap, wrap
from arneb_core.store.format.schema import (
    PLACE_SUFFIX,
    CursorKind,
    SubscriptionId,
    TopicId,
    cursor_prefix,
    entry_key,
    holes_suffix,
    ledger_key,
    mask_suffix,
    parse_cursor_key,
    parse_entry_key,
    parse_ledger_key,
    parse_subscription_key,
    parse_trimmed_key,
    subscription_key,
    subscriptions_prefix,
    topic_prefix,
    trimmed_key,
)

u32 = st.integers(0, 2**32 - 1)
topics = u32.map(TopicId)
ledgers = u32.map(LedgerId)
subscriptions = u32.map(SubscriptionId)
positions = st.builds(position_at, st.integers(0, 2**31 - 1), u32)


@given(st.tuples(topics, positions), st.tuples(topics, positions))
def test_entry_keys_sort_like_topics_and_positions(
    one: tuple[TopicId, Position], other: tuple[TopicId, Position]
) -> None:
    assert (entry_key(*one) < entry_key(*other)) == (one < other)
    assert parse_entry_key(entry_key(*one)) == one
    assert entry_key(*one).startswith(topic_prefix(one[0]))


@given(topics, ledgers)
def test_ledger_keys_parse_back(topic: TopicId, ledger: LedgerId) -> None:
    assert parse_ledger_key(ledger_key(topic, ledger)) == (topic, ledger)


@given(topics, subscriptions, positions)
def test_cursor_keys_parse_back_and_sort_by_kind(
    topic: TopicId, subscription: SubscriptionId, position: Position
) -> None:
    prefix = cursor_prefix(topic, subscription)
    keys = [
        prefix + PLACE_SUFFIX,
        prefix + holes_suffix(position >> 16),
        prefix + mask_suffix(position),
    ]
    assert keys == sorted(keys)
    assert [parse_cursor_key(key) for key in keys] == [
        (topic, subscription, CursorKind.PLACE, 0),
        (topic, subscription, CursorKind.HOLES, position >> 16),
        (topic, subscription, CursorKind.MASK, position),
    ]


@given(topics, st.text(max_size=20))
def test_subscription_keys_parse_back(topic: TopicId, name: str) -> None:
    key = subscription_key(topic, name)
    assert key.startswith(subscriptions_prefix(topic))
    assert parse_subscription_key(key) == (topic, name)


@given(topics)
def test_the_key_of_what_was_trimmed_parses_back(topic: TopicId) -> None:
    assert parse_trimmed_key(trimmed_key(topic)) == topic


@given(st.binary(max_size=20))
def test_other_bytes_are_no_key(key: bytes) -> None:
    """A parser takes nothing that its packer would not have made."""
    try:
        topic, subscription, kind, number = parse_cursor_key(key)
    except ValueError:
        pass
    else:
        suffixes = {
            CursorKind.PLACE: lambda: PLACE_SUFFIX,
            CursorKind.HOLES: lambda: holes_suffix(number),
            CursorKind.MASK: lambda: mask_suffix(Position(number)),
        }
        assert key == cursor_prefix(topic, subscription) + suffixes[kind]()
    try:
        owner, name = parse_subscription_key(b"subscription/" + key)
    except ValueError:
        pass
    else:
        assert subscription_key(owner, name) == b"subscription/" + key
    try:
        owner = parse_trimmed_key(b"trimmed/" + key)
    except ValueError:
        pass
    else:
        assert trimmed_key(owner) == b"trimmed/" + key
    for parse, size in ((parse_entry_key, 12), (parse_ledger_key, 8)):
        assume(len(key) != size)
        with pytest.raises(error):
            parse(key)


@given(st.binary(max_size=5), st.integers(0, 900), st.binary(max_size=5), st.binary(max_size=9))
def test_a_long_key_is_kept_whole_beside_its_value(
    head: bytes, size: int, tail: bytes, value: bytes
) -> None:
    key = head + bytes(size) + tail
    stored = shorten(key)
    assert len(stored) <= 511
    assert is_long(key) == is_long(stored)
    if is_long(key):
        assert stored.startswith(key[:479])
        assert unwrap(wrap(key, value)) == (key, value)
    else:
        assert stored == key


def test_long_keys_that_differ_only_at_the_end_are_stored_apart() -> None:
    assert shorten(bytes(600) + b"a") != shorten(bytes(600) + b"b")


@given(st.binary(max_size=40))
def test_other_bytes_hold_no_long_key(stored: bytes) -> None:
    with pytest.raises(ValueError, match="expected a long key"):
        unwrap(stored)
