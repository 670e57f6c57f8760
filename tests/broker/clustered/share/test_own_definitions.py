"""What each shard's leader imports of the definitions in the settings."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.amqp_frontend.opening import open_topology
from tests.cluster.member_kit import until

from arneb.clustered.share import own_definitions
from arneb.clustered.share.own_definitions import OwnDefinitions
from arneb_cluster.routing.division import Division
from arneb_core.access.records import Permission, TopicPermission, User, Vhost
from arneb_core.engine.engine import open_engine

pytestmark = pytest.mark.real_time  # threads do the work, and no mock clock waits for them

DIVISION = Division("main", {"public/audit": "audit"}, {"books": "audit"})
RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}


def granted(*users: str) -> list[dict[str, Any]]:
    return [{"user": user, "vhost": "books/a", **RIGHTS} for user in users]


FILE = {
    "users": [{"name": "anna", "password": "x", "tags": ""}],
    "vhosts": [{"name": "books/a"}, {"name": "shop"}],
    "permissions": [
        *granted("guest", "anna", "nobody"), {"user": "anna", "vhost": "shop", **RIGHTS},
    ],
    "topic_permissions": [
        {"user": "anna", "vhost": "books/a", "exchange": "amq.topic", "write": "", "read": ".*"}
    ],
    "queues": [{"name": "q", "vhost": "books/a", "durable": True, "arguments": {}}],
}  # fmt: skip


async def test_another_shard_imports_its_vhosts_and_grants_permissions_once_users_are_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(FILE))
    async with open_engine(tmp_path / "audit") as core:
        topology = await open_topology(core)
        catalogue = topology.catalogue
        own = OwnDefinitions(DIVISION, "audit")
        await own.load(catalogue, topology, file)
        assert [each.name for each in catalogue.tables.rows(Vhost)] == ["/", "books/a"]
        vhost = topology.vhost("books/a")
        assert vhost is not None
        assert vhost.has_queue("q")
        assert [each.name for each in catalogue.tables.rows(User)] == ["guest"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(own.grant_late, catalogue, topology)
            await trio.testing.wait_all_tasks_blocked()
            assert users_in(catalogue.tables.rows(Permission)) == {"guest"}
            async with catalogue.changing() as edit:
                edit.put_user("anna")
            await until(lambda: users_in(catalogue.tables.rows(TopicPermission)) == {"anna"})
            assert users_in(catalogue.tables.rows(Permission)) == {"guest", "anna"}
            nursery.cancel_scope.cancel()
        assert not caplog.messages
        monkeypatch.setattr(own_definitions, "WAIT_S", 0.0)
        await own.grant_late(catalogue, topology)
    [line] = [each for each in caplog.messages if "left out" in each]
    assert line.startswith("shard audit: what the definitions grant to user 'nobody'")


def users_in(rows: Any) -> set[str]:
    return {each.user for each in rows if each.vhost == "books/a"}


async def test_the_first_shard_imports_everything_else_and_refuses_what_is_wrong(
    tmp_path: Path,
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({**FILE, "permissions": FILE["permissions"][-1:]}))
    async with open_engine(tmp_path / "main") as core:
        topology = await open_topology(core)
        own = OwnDefinitions(DIVISION, "main")
        await own.load(topology.catalogue, topology, file)
        assert [each.name for each in topology.catalogue.tables.rows(Vhost)] == ["/", "shop"]
        assert {each.name for each in topology.catalogue.tables.rows(User)} == {"guest", "anna"}
        file.write_text("[]")
        with pytest.raises(ValueError, match="failed_to_parse_json"):
            await own.load(topology.catalogue, topology, file)
        file.write_text(json.dumps({"permissions": [{"user": "no", "vhost": "/", **RIGHTS}]}))
        with pytest.raises(ValueError, match="nothing was imported"):
            await own.load(topology.catalogue, topology, file)
