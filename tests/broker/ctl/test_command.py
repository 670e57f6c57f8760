"""An administrator who is locked out gets back in while no broker runs, and nothing else
changes."""

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from arneb.cli import arneb
from arneb_amqp.config import AmqpConfig
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import Permission, User
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory in which guest has lost every right."""

    async def main() -> None:
        async with open_engine(tmp_path / "data") as core:
            catalogue = await opened(core)
            async with catalogue.changing() as edit:
                edit.delete_user("guest")
                edit.put_user("u")

    trio.run(main)
    return tmp_path / "data"


async def opened(core: Engine) -> Catalogue:
    return await open_catalogue(core, AmqpConfig(vhosts=("/", "v")))


def found(data: Path, name: str) -> tuple[User | None, list[Permission]]:
    async def main() -> tuple[User | None, list[Permission]]:
        async with open_engine(data) as core:
            tables = (await opened(core)).tables
            rows = [each for each in tables.rows(Permission) if each.user == name]
            return tables.get(User, name), rows

    return trio.run(main)


def ctl(data: Path, *arguments: str, typed: str = "a new one\n") -> Result:
    return CliRunner().invoke(arneb, ["ctl", "--data-dir", str(data), *arguments], input=typed)


def test_a_password_is_set_and_not_shown(data: Path) -> None:
    result = ctl(data, "set-password", "u")
    assert result.exit_code == 0, result.output
    assert "a new one" not in result.output
    user, rows = found(data, "u")
    assert user is not None
    assert user.password.admits("a new one")
    assert not rows
    assert not user.tags


def test_a_deleted_user_comes_back_as_an_administrator(data: Path) -> None:
    assert ctl(data, "set-password", "guest").exit_code == 2
    assert ctl(data, "set-password", "guest", "--administrator").exit_code == 0
    user, rows = found(data, "guest")
    assert user is not None
    assert user.tags == ("administrator",)
    assert [each.vhost for each in rows] == ["/", "v"]


def test_impossible_requests_are_refused_and_nothing_is_touched(data: Path, tmp_path: Path) -> None:
    assert "no store" in ctl(tmp_path, "set-password", "u").output
    assert not (tmp_path / "data.mdb").exists()
    assert ctl(data, "set-password", "u", typed="\n").exit_code == 2
    store = Store.open(data)
    try:
        assert ctl(data, "set-password", "u").exit_code == 2
    finally:
        store.close()
    user, _ = found(data, "u")
    assert user is not None
    assert not user.password.text
