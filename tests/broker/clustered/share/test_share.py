"""The part of everything that one shard's broker has, and the users it begins with."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from arneb.clustered.share.copied_tenants import CopiedTenants
from arneb.clustered.share.copied_users import CopiedUsers
from arneb.clustered.share.share import OwnPlacements, Share
from arneb.http.routing.caught_up import UsersUnknown
from arneb_cluster.protocol.values import NOWHERE, Place
from arneb_cluster.replica import Replica
from arneb_cluster.routing.division import Division
from arneb_cluster.routing.leaders import Leaders
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import Permission, User, Vhost
from arneb_core.access.seed import Seed, SeedUser
from arneb_core.api.errors import StoreUnusable
from arneb_core.api.nodes.placement import HERE, NOBODY, Elsewhere, NodeAddresses
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_pulsar.namespaces.rates import UNLIMITED
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.resource_groups import ResourceGroups

DIVISION = Division("main", {"public/audit": "audit"}, {"books": "audit"})
SEED = Seed(("/", "books/a"), (SeedUser("guest", "old"), SeedUser("gone", "x")))


class First:
    """The first shard on a node, in a directory that does not change."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.stopped = False
        self.seen: list[str] = []

    async def ends(self) -> Place:
        return NOWHERE

    async def has(self, place: Place) -> None:
        if self.stopped:
            raise UsersUnknown("shard main stopped here: it differs")
        self.seen.append("has the end")

    async def metadata_other_than(self, changes: int) -> None:
        await trio.sleep_forever()


async def users_in(path: Path) -> None:
    """A catalogue with some tenants and users."""
    async with open_engine(path) as core:
        await Catalogue.open(core, Seed(("/",), (SeedUser("guest", "new", ("administrator",)),)))


async def test_the_first_shard_begins_with_the_settings_except_what_other_shards_have() -> None:
    seed = await Share(DIVISION, "main").seed(SEED)
    assert (seed.vhosts, seed.users, seed.copied) == (("/",), SEED.users, ())


async def test_another_shard_begins_with_copies_and_its_own_vhosts(tmp_path: Path) -> None:
    await users_in(tmp_path / "main")
    with Store.open(tmp_path / "main", follows=True) as store:
        users = CopiedUsers(First(Replica(store)))
        share = Share(DIVISION, "audit", ("audit",), users)
        seed = await share.seed(SEED)
        assert seed.vhosts == ("books/a", "audit")
        assert [each.name for each in seed.users] == ["guest"]
        async with open_engine(tmp_path / "audit") as core, trio.open_nursery() as nursery:
            catalogue = await Catalogue.open(core, seed, belonging=share.belonging)
            await share.begin(catalogue, nursery)
            [guest] = catalogue.tables.rows(User)
            assert guest.password.admits("new")
            assert [each.name for each in catalogue.tables.rows(Vhost)] == ["audit", "books/a"]
            assert len(catalogue.tables.rows(Permission)) == 2
            share.check(catalogue, ["persistent://books/x/t", "pulsar-transactions://open"])
            with pytest.raises(ValueError, match="topic persistent://public/x/t: .* 'main'"):
                share.check(catalogue, ["persistent://public/x/t"])
            nursery.cancel_scope.cancel()


async def test_a_node_that_cannot_know_the_users_does_not_lead(tmp_path: Path) -> None:
    await users_in(tmp_path / "main")
    with Store.open(tmp_path / "main", follows=True) as store:
        first = First(Replica(store))
        first.stopped = True
        share = Share(DIVISION, "audit", (), CopiedUsers(first))
        with pytest.raises(StoreUnusable, match="cannot lead shard audit: shard main stopped"):
            await share.seed(SEED)
        with pytest.raises(UsersUnknown):
            await share.catch_up()


class Recorded(CopiedTenants):
    """Says when it copied."""

    def __init__(self, first: First) -> None:
        super().__init__(first)
        self._asked = first

    async def copy(self) -> None:
        self._asked.seen.append("copied")


async def test_a_broker_that_has_caught_up_knows_the_tenants_at_the_end_of_the_log(
    tmp_path: Path,
) -> None:
    await users_in(tmp_path / "main")
    with Store.open(tmp_path / "main", follows=True) as store:
        first = First(Replica(store))
        share = Share(DIVISION, "audit", (), CopiedUsers(first), Recorded(first))
        await share.catch_up()
        assert first.seen == ["has the end", "copied"]


def test_a_broker_has_only_the_namespaces_of_its_shard() -> None:
    leaders = Leaders(DIVISION)
    own = OwnPlacements(leaders, "audit")
    leaders.say("main", HERE)
    assert own.of("public/default") == own.of("books/a") == NOBODY
    leaders.say("audit", HERE)
    assert own.of("public/default") == NOBODY
    assert own.of("books/a") == HERE
    leaders.say("audit", Elsewhere(NodeAddresses("n2", "n2:1", "pulsar://n2:2"), 3))
    found = cast("Elsewhere", own.of("books/a"))
    # Clients would reach whichever shard that node's port belongs to.
    assert found == Elsewhere(NodeAddresses("n2", "n2:1"), 3)


async def test_a_resource_group_that_was_created_again_is_copied_as_it_is(tmp_path: Path) -> None:
    """Nothing is left of the earlier group's limits, even though no state in between was seen."""

    async def groups_in(path: Path, *documents: dict[str, int]) -> None:
        async with open_engine(path) as core:
            groups = ResourceGroups(core, Clock())
            await groups.drop("g")
            for each in documents:
                await groups.put("g", each)

    async def copied(core: Engine) -> Mapping[str, int]:
        with Store.open(tmp_path / "main", follows=True) as store:
            nothing = SimpleNamespace(drop_tenant=None, drop=None)
            groups = ResourceGroups(core, Clock())
            context = SimpleNamespace(
                core=core, namespaces=nothing, resource_groups=groups, settings=nothing
            )
            await CopiedTenants(First(Replica(store))).begin(cast("BrokerContext", context))
            return groups.all["g"].document

    async with open_engine(tmp_path / "audit") as core:
        for rates in ({"publishRateInMsgs": 10}, {"dispatchRateInMsgs": 5}):
            await groups_in(tmp_path / "main", rates)
            found = await copied(core)
            assert {name: each for name, each in found.items() if each != UNLIMITED} == rates
