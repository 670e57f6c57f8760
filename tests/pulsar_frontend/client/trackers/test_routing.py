"""Routing, against values that Java computes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.encoding.hashing import key_hash
from arneb_pulsar.client.trackers.routing import (
    Hashing,
    RoundRobin,
    Router,
    SinglePartition,
    java_string_hash,
    murmur3_32,
)


@pytest.mark.parametrize(
    ("key", "number"),
    [("key1", 462881061), ("key2", 1936800180), ("key01", 39696932), ("key02", 751761803)],
)
def test_murmur3_is_that_of_the_official_clients(key: str, number: int) -> None:
    """Vectors of the C++ client, tests/HashTest.cc."""
    assert murmur3_32(key.encode()) == number


@given(st.binary(min_size=1))
def test_client_and_broker_hash_keys_alike(key: bytes) -> None:
    assert murmur3_32(key) == key_hash(key)


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("", 0),
        ("a", 97),
        ("keykeykeykeykey1", 434058482),
        ("keykeykey2", 42978643),
        ("polygenelubricants", 0),  # Integer.MIN_VALUE in Java
        ("\U0001f600", 1772899),
    ],
)
def test_the_string_hash_is_javas(key: str, number: int) -> None:
    """The third and fourth are vectors of the C++ client, tests/HashTest.cc."""
    assert java_string_hash(key) == number


@given(st.text())
def test_the_string_hash_is_the_polynomial_over_utf_16(key: str) -> None:
    units = key.encode("utf-16-be", "surrogatepass")
    number = 0
    for at in range(0, len(units), 2):
        number = (number * 31 + int.from_bytes(units[at : at + 2], "big")) % (1 << 32)
    assert java_string_hash(key) == number % (1 << 31)


@pytest.mark.parametrize("router", [SinglePartition(3), RoundRobin(5), RoundRobin(5, batch_s=0.1)])
@pytest.mark.parametrize("now", [0.0, 17.3])
def test_a_key_has_its_partition_whatever_the_router(router: Router, now: float) -> None:
    assert router.choose("keykeykey2", 7, now) == 42978643 % 7


@pytest.mark.parametrize("kind", [SinglePartition, RoundRobin])
def test_keys_may_be_hashed_with_murmur3(kind: type[SinglePartition | RoundRobin]) -> None:
    router = kind(0, hashing=Hashing.MURMUR3)
    assert router.choose("key1", 7, 0.0) == 462881061 % 7


def test_what_has_no_key_goes_to_one_partition_if_that_is_wanted() -> None:
    router = SinglePartition(11)
    assert {router.choose(None, 4, now) for now in range(9)} == {3}


def test_what_has_no_key_goes_round() -> None:
    router = RoundRobin(2)
    assert [router.choose(None, 3, 0.0) for _ in range(5)] == [2, 0, 1, 2, 0]


def test_with_batching_it_goes_round_by_time_so_that_batches_are_filled() -> None:
    router = RoundRobin(1, batch_s=0.1)
    chosen = [router.choose(None, 3, 40.0 + number / 100 + 0.001) for number in range(30)]
    runs = [chosen[at : at + 10] for at in (0, 10, 20)]
    assert all(len(set(run)) == 1 for run in runs)
    assert Counter(chosen) == {0: 10, 1: 10, 2: 10}
