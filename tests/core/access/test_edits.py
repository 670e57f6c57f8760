"""An edit says why it refuses, and a removal takes along what belongs to the thing removed."""

import pytest

from arneb_core.access.edits import Edit
from arneb_core.access.errors import (
    InvalidAccess,
    LimitReached,
    NoSuchUser,
    NoSuchVhost,
    NotSet,
)
from arneb_core.access.passwords import NO_PASSWORD, PasswordHash
from arneb_core.access.records import (
    GlobalParameter,
    OperatorPolicy,
    Parameter,
    Permission,
    Policy,
    TopicPermission,
    User,
    Vhost,
)
from arneb_core.access.tables import Tables

SECRET = PasswordHash("c2FsdA==")


def filled() -> Tables:
    tables = Tables()
    edit = Edit(tables)
    for vhost in ("/", "v"):
        edit.put_vhost(vhost)
        for user in ("u", "w"):
            edit.put_user(user, SECRET, ["monitoring"])
            edit.set_permissions(user, vhost, "c", "w", "r")
            edit.set_topic_permissions(user, vhost, "x", "w", "r")
        edit.set_parameter(vhost, "shovel", "s", {"src": 1})
        edit.set_policy(Policy(vhost, "p", "q", {"max-length": 1}))
        edit.set_policy(OperatorPolicy(vhost, "p", "q", {"max-length": 2}))
    edit.set_global_parameter("cluster_name", "c")
    tables.apply(edit.changed)
    return tables


def test_a_deleted_users_permissions_go_with_it() -> None:
    tables = filled()
    edit = Edit(tables)
    edit.delete_user("u")
    tables.apply(edit.changed)
    assert [each.name for each in tables.rows(User)] == ["w"]
    assert {each.user for each in tables.rows(Permission)} == {"w"}
    assert {each.user for each in tables.rows(TopicPermission)} == {"w"}


def test_a_vhost_that_goes_takes_along_all_that_was_said_of_it() -> None:
    tables = filled()
    edit = Edit(tables)
    edit.begin_vhost_removal("v")
    tables.apply(edit.changed)
    left = [*tables.rows(Permission), *tables.rows(TopicPermission), *tables.rows(Parameter),
            *tables.rows(Policy), *tables.rows(OperatorPolicy)]  # fmt: skip
    assert {each.vhost for each in left} == {"/"}
    assert len(left) == 7
    with pytest.raises(NoSuchVhost):
        Edit(tables).set_permissions("u", "v", "", "", "")
    with pytest.raises(InvalidAccess, match="being deleted"):
        Edit(tables).put_vhost("v")
    edit = Edit(tables)
    edit.end_vhost_removal("v")
    tables.apply(edit.changed)
    assert [each.name for each in tables.rows(Vhost)] == ["/"]
    assert tables.vhost_names == {"public/default": "/"}


def test_a_vhost_put_again_keeps_its_limits_and_nothing_else() -> None:
    tables = filled()
    edit = Edit(tables)
    edit.put_vhost("v", description="d", tags=["t"], default_queue_type="quorum")
    edit.set_vhost_limits("v", {"max-queues": 3})
    edit.put_vhost("v")
    assert edit.get(Vhost, "v") == Vhost("v", "public/v", limits={"max-queues": 3})


def test_a_user_put_again_without_a_password_has_none() -> None:
    edit = Edit(filled())
    edit.set_user_limits("u", {"max-channels": 3})
    edit.put_user("u", tags=["a", "b", "a"])
    assert edit.get(User, "u") == User("u", NO_PASSWORD, ("a", "b"), {"max-channels": 3})


def test_what_did_not_change_is_not_written() -> None:
    edit = Edit(filled())
    edit.set_permissions("u", "/", "c", "w", "r")
    edit.put_user("w", SECRET, ["monitoring"])
    assert not edit.rows
    edit.set_password("w", NO_PASSWORD)
    assert [key for key, _ in edit.rows] == ["access/user/w"]


def test_what_is_cleared_is_removed_from_the_store() -> None:
    edit = Edit(filled())
    edit.clear_permissions("u", "/")
    edit.clear_permissions("u", "/")
    edit.clear_topic_permissions("u", "/", "other")
    edit.clear_topic_permissions("u", "/")
    edit.clear_parameter("/", "shovel", "s")
    edit.clear_global_parameter("cluster_name")
    edit.clear_policy(OperatorPolicy, "/", "p")
    assert dict(edit.rows) == dict.fromkeys(
        [
            "access/permission/u/%2F", "access/topic-permission/u/%2F/x",
            "access/parameter/%2F/shovel/s", "access/global-parameter/cluster_name",
            "access/operator-policy/%2F/p",
        ]
    )  # fmt: skip


def test_what_is_not_there_cannot_be_changed() -> None:
    edit = Edit(filled())
    for attempt in (
        lambda: edit.set_password("x", SECRET),
        lambda: edit.delete_user("x"),
        lambda: edit.set_permissions("x", "/", "", "", ""),
    ):
        with pytest.raises(NoSuchUser, match="User 'x' does not exist"):
            attempt()
    for attempt in (
        lambda: edit.begin_vhost_removal("x"),
        lambda: edit.set_permissions("u", "x", "", "", ""),
        lambda: edit.set_parameter("x", "shovel", "s", 1),
    ):
        with pytest.raises(NoSuchVhost, match="Virtual host 'x' does not exist"):
            attempt()
    with pytest.raises(NotSet):
        edit.clear_global_parameter("x")
    assert not edit.rows


def test_what_cannot_be_is_refused() -> None:
    edit = Edit(filled())
    for attempt in (
        lambda: edit.set_permissions("u", "/", "(", "", ""),
        lambda: edit.set_topic_permissions("u", "/", "x", "", "("),
        lambda: edit.set_policy(Policy("/", "p", "(", {})),
        lambda: edit.set_vhost_limits("/", {"max-channels": 1}),
        lambda: edit.set_user_limits("u", {"max-queues": 1}),
        lambda: edit.set_user_limits("u", {"max-channels": True}),
        lambda: edit.put_user(""),
        lambda: edit.put_user("\udcff"),
        lambda: edit.put_vhost(""),
        lambda: edit.put_vhost("v", namespace="public/w"),
    ):
        with pytest.raises(InvalidAccess):
            attempt()
    assert not edit.rows


def test_there_are_no_more_vhosts_than_there_may_be() -> None:
    edit = Edit(filled(), vhosts_max=3)
    edit.put_vhost("v", description="changed")
    edit.put_vhost("third")
    with pytest.raises(LimitReached, match="cannot create vhost 'x': vhost limit of 3 is reached"):
        edit.put_vhost("x")


def test_a_policy_is_for_all_unless_it_says_for_what() -> None:
    policy = Edit(filled()).get(Policy, "/", "p")
    assert policy is not None
    assert (policy.apply_to, policy.priority) == ("all", 0)


def test_global_parameters_are_values_of_any_kind() -> None:
    edit = Edit(filled())
    edit.set_global_parameter("tags", [1, {"a": None}])
    assert edit.get(GlobalParameter, "tags") == GlobalParameter("tags", [1, {"a": None}])
