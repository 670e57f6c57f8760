"""Which part of a cluster's catalogue a store has: nothing is in two, and copies do not change."""

from pathlib import Path

import pytest
import trio

from arneb_core.access.belonging import Belonging
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.edits import Edit
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.passwords import PasswordHash
from arneb_core.access.records import GlobalParameter, Permission, TopicPermission, User, Vhost
from arneb_core.access.seed import Seed, SeedUser
from arneb_core.access.tables import Tables
from arneb_core.engine.engine import open_engine


def misplaced(namespace: str) -> str:
    return "" if namespace.startswith("books/") else f"{namespace} is in shard 'main'"


OF_BOOKS = Belonging(misplaced, "main")
ANNA = User("anna", PasswordHash("x"), ("management",), {"max-channels": 3})
NAME = GlobalParameter("cluster_name", "ours")


@pytest.mark.parametrize(
    ("name", "namespace"), [("orders", None), ("orders", "books/orders"), ("books/a", "public/a")]
)
def test_a_vhost_is_made_where_both_its_name_and_its_namespace_belong(
    name: str, namespace: str | None
) -> None:
    edit = Edit(Tables(), belonging=OF_BOOKS)
    with pytest.raises(InvalidAccess, match=f"cannot create vhost '{name}': public/.* 'main'"):
        edit.put_vhost(name, namespace=namespace)
    assert edit.put_vhost("books/a").namespace == "books/a"


def test_users_are_changed_where_they_are_kept() -> None:
    edit = Edit(Tables([ANNA, NAME]), belonging=OF_BOOKS)
    for change in (
        lambda: edit.put_user("bert"),
        lambda: edit.set_password("anna", PasswordHash("y")),
        lambda: edit.set_user_limits("anna", {}),
        lambda: edit.delete_user("anna"),
        lambda: edit.set_global_parameter("cluster_name", "other"),
        lambda: edit.clear_global_parameter("cluster_name"),
    ):
        with pytest.raises(InvalidAccess, match="is changed in shard 'main', this one has a copy"):
            change()
    assert not edit.changed


def test_a_copy_has_the_copied_users_and_no_others() -> None:
    bert, vhost = User("bert"), Vhost("books/a", "books/a")
    granted = (
        Permission("bert", "books/a", "", "", ""),
        TopicPermission("bert", "books/a", "x", "", ""),
        Permission("anna", "books/a", ".*", "", ""),
    )
    before = GlobalParameter("old", 1)
    tables = Tables([bert, User("anna"), vhost, *granted, before])
    edit = Edit(tables, belonging=OF_BOOKS)
    edit.copy([ANNA, NAME])
    tables.apply(edit.changed)
    assert tables.rows(User) == [ANNA]
    assert tables.rows(GlobalParameter) == [NAME]
    assert tables.rows(Permission) == [granted[2]]
    assert tables.rows(TopicPermission) == []

    again = Edit(tables, belonging=OF_BOOKS)
    again.copy([ANNA, NAME])
    assert not again.changed


def test_a_store_begins_with_the_copied_users_and_what_the_settings_grant(data_dir: Path) -> None:
    seed = Seed(("books/a",), (SeedUser("anna", "an old one"),), copied=(ANNA, User("bert"), NAME))

    async def begin() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, seed, belonging=OF_BOOKS)
            assert catalogue.tables.rows(User) == [ANNA, User("bert")]
            assert [each.user for each in catalogue.tables.rows(Permission)] == ["anna"]
            assert not catalogue.ignored
            assert catalogue.tables.rows(GlobalParameter) == [NAME], "the id too"
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, seed, belonging=OF_BOOKS)
            assert not catalogue.ignored  # of users it is told where they are kept

    trio.run(begin)
