"""Which shard a namespace belongs to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_cluster.routing.division import EVERYTHING_ELSE, Division

NAMES = st.sampled_from(["a", "b", "c"])
SPACES = st.builds("{}/{}".format, NAMES, NAMES)
SHARDS = st.sampled_from(["one", "two", "three"])

DIVISION = Division("main", {"books/old": "archive"}, {"books": "audit"})


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("public/default", "main"),
        ("books/new", "audit"),
        ("books/old", "archive"),
        ("bookshop/old", "main"),
        (EVERYTHING_ELSE, "main"),
        (EVERYTHING_ELSE + "audit", "audit"),
    ],
)
def test_a_namespaces_own_entry_comes_before_its_tenants(namespace: str, expected: str) -> None:
    assert DIVISION.shard_of(namespace) == expected


@given(st.dictionaries(SPACES, SHARDS), st.dictionaries(NAMES, SHARDS), SPACES)
def test_a_namespace_is_in_one_shard(
    namespaces: dict[str, str], tenants: dict[str, str], namespace: str
) -> None:
    division = Division("main", namespaces, tenants)
    shards = {"main", "one", "two", "three"}
    [found] = [each for each in shards if not division.misplaced(each, namespace)]
    assert found == division.shard_of(namespace)
    assert division.is_divided == bool(namespaces or tenants)


def test_settings_that_divide_the_same_way_have_the_same_digest() -> None:
    same = Division("main", dict(DIVISION.namespaces), dict(DIVISION.tenants))
    assert same.digest == DIVISION.digest != ""
    assert Division("main").digest == ""
    others = [
        Division("other", DIVISION.namespaces, DIVISION.tenants),
        Division("main", DIVISION.namespaces, {"books": "archive"}),
        Division("main", {}, DIVISION.tenants),
    ]
    assert DIVISION.digest not in [each.digest for each in others]


def test_the_refusal_names_both_shards() -> None:
    reason = "books/old is in shard 'archive', not in 'audit'"
    assert DIVISION.misplaced("audit", "books/old") == reason
