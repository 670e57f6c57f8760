"""Defaults: a new vhost gets them, and what is changed later stays changed."""

from arneb_core.access.defaults import LimitsOf, PolicyOf, VhostDefaults
from arneb_core.access.edits import UNLIMITED, Edit
from arneb_core.access.records import OperatorPolicy, Vhost
from arneb_core.access.tables import Tables

DEFAULTS = VhostDefaults(
    (
        LimitsOf("^dev", {"max-queues": 5}),
        LimitsOf(".*", {"max-queues": 100, "max-connections": 7}),
    ),
    (
        PolicyOf("short", "^dev", "^tmp", {"expires": 1000}),
        PolicyOf("all", ".*", ".*", {"max-length": 9}),
    ),
)


def edited(tables: Tables) -> Edit:
    return Edit(tables, UNLIMITED, DEFAULTS)


def made(*names: str) -> Tables:
    tables = Tables()
    edit = edited(tables)
    for name in names:
        edit.put_vhost(name)
    tables.apply(edit.changed)
    return tables


def limits_of(tables: Tables, name: str) -> dict[str, int]:
    found = tables.get(Vhost, name)
    assert found is not None
    return dict(found.limits)


def test_of_limits_the_first_that_match_count_and_of_policies_all() -> None:
    tables = made("dev1", "shop")
    assert limits_of(tables, "dev1") == {"max-queues": 5}
    assert limits_of(tables, "shop") == {"max-queues": 100, "max-connections": 7}
    rows = sorted(tables.rows(OperatorPolicy), key=lambda each: each.key)
    assert [each.key for each in rows] == [("dev1", "all"), ("dev1", "short"), ("shop", "all")]
    assert rows[1] == OperatorPolicy("dev1", "short", "^tmp", {"expires": 1000})


def test_what_was_changed_since_stays_changed() -> None:
    tables = made("dev1")
    edit = edited(tables)
    edit.set_vhost_limits("dev1", {})
    edit.clear_policy(OperatorPolicy, "dev1", "all")
    edit.put_vhost("dev1", description="again")
    tables.apply(edit.changed)
    assert limits_of(tables, "dev1") == {}
    assert [each.name for each in tables.rows(OperatorPolicy)] == ["short"]


def test_without_any_there_are_none() -> None:
    tables = Tables()
    edit = Edit(tables)
    edit.put_vhost("v")
    tables.apply(edit.changed)
    assert limits_of(tables, "v") == {}
    assert not list(tables.rows(OperatorPolicy))
