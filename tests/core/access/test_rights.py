"""A right is a pattern found in a name, in this vhost and in no other."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.access.records import Permission, TopicPermission
from arneb_core.access.rights import Right, expanded, has_access, may, may_use_key
from arneb_core.access.tables import Tables

RIGHTS = st.sampled_from(Right)


def test_access_is_a_row_even_one_that_allows_nothing() -> None:
    tables = Tables([Permission("u", "/", "", "", "")])
    assert has_access(tables, "u", "/")
    assert not has_access(tables, "u", "other")
    assert not has_access(tables, "v", "/")
    assert not any(may(tables, "u", "/", right, "q") for right in Right)


def test_an_empty_pattern_means_the_name_that_is_empty() -> None:
    tables = Tables([Permission("u", "/", "", "^$", "x")])
    assert may(tables, "u", "/", Right.CONFIGURE, "")
    assert may(tables, "u", "/", Right.WRITE, "")
    assert not may(tables, "u", "/", Right.READ, "")


@given(RIGHTS, RIGHTS)
def test_one_right_says_nothing_of_another(given_right: Right, asked: Right) -> None:
    patterns = {right.value: "q" if right is given_right else "" for right in Right}
    tables = Tables([Permission("u", "/", **patterns)])
    assert may(tables, "u", "/", asked, "a queue") is (given_right is asked)


@given(
    st.sampled_from(["/", "default", "v", "public/v"]),
    st.sampled_from(["/", "default", "v", "public/v"]),
    RIGHTS,
)
def test_rights_in_one_vhost_reach_no_other(own: str, other: str, right: Right) -> None:
    tables = Tables([Permission("u", own, ".*", ".*", ".*")])
    assert may(tables, "u", other, right, "q") is (own == other)
    assert has_access(tables, "u", other) is (own == other)


def test_without_a_row_for_the_exchange_every_routing_key_is_allowed() -> None:
    tables = Tables([TopicPermission("u", "/", "x", "^a", "^b")])
    keys = ("a.1", "b.1")
    assert [may_use_key(tables, "u", "/", "x", Right.WRITE, key) for key in keys] == [True, False]
    assert [may_use_key(tables, "u", "/", "x", Right.READ, key) for key in keys] == [False, True]
    assert may_use_key(tables, "u", "/", "other", Right.WRITE, "z")
    assert may_use_key(tables, "v", "/", "x", Right.WRITE, "z")


def test_variables_are_put_in_as_text() -> None:
    tables = Tables([TopicPermission("u.x", "/", "x", "^{username}\\.{vhost}$", "^{nothing}")])
    assert may_use_key(tables, "u.x", "/", "x", Right.WRITE, "u.x./")
    assert may_use_key(tables, "u.x", "/", "x", Right.WRITE, "uax./"), (
        "names are put into patterns without escaping"
    )
    assert not may_use_key(tables, "u.x", "/", "x", Right.WRITE, "{username}./")
    assert expanded("{username}-{client_id}", {"username": "u"}) == "u-{client_id}"


def test_a_variable_that_makes_no_pattern_allows_nothing() -> None:
    tables = Tables([TopicPermission("(", "/", "x", "{username}", "")])
    assert not may_use_key(tables, "(", "/", "x", Right.WRITE, "(")
