"""The catalogue is durable first and visible then; settings count once; a crash leaves all or
nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread

import pytest
import trio

from arneb_core.access import edits
from arneb_core.access.catalogue import INTERNAL_CLUSTER_ID, RECORDS_PER_TURN, Catalogue
from arneb_core.access.errors import NamespaceTaken, NoSuchUser, NoSuchVhost
from arneb_core.access.passwords import NO_PASSWORD
from arneb_core.access.records import GlobalParameter, Permission, Record, User, Vhost, encode
from arneb_core.access.seed import Seed, SeedUser
from arneb_core.access.tables import Changed
from arneb_core.api.core import Unit
from arneb_core.api.errors import StoreFailed
from arneb_core.engine.engine import open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.faults import FaultyStore

SEED = Seed(("/", "v"), (SeedUser("guest", "secret", ("administrator",)),))


def test_a_store_has_an_id_of_its_cluster_for_good(data_dir: Path, tmp_path: Path) -> None:
    async def id_in(place: Path, *, without: bool = False) -> str:
        async with open_engine(place) as core:
            catalogue = await Catalogue.open(core, SEED)
            found = catalogue.get(GlobalParameter, INTERNAL_CLUSTER_ID)
            assert found is not None
            if without:  # as in a store from before there were such ids
                async with catalogue.changing() as edit:
                    edit.clear_global_parameter(INTERNAL_CLUSTER_ID)
            return str(found.value)

    first = trio.run(id_in, data_dir)
    assert re.fullmatch(r"rabbitmq-cluster-id-[\w-]{22}", first)
    assert trio.run(partial(id_in, data_dir, without=True)) == first
    assert trio.run(id_in, data_dir) != first
    assert trio.run(id_in, tmp_path / "other") != first


def test_the_seed_counts_at_the_first_start_and_the_store_after_that(data_dir: Path) -> None:
    async def first() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, SEED)
            assert not catalogue.ignored
            assert [each.name for each in catalogue.tables.rows(Vhost)] == ["/", "v"]
            guest = catalogue.get(User, "guest")
            assert guest is not None
            assert guest.password.admits("secret")
            assert guest.tags == ("administrator",)
            assert catalogue.get(Permission, "guest", "v") == Permission(
                "guest", "v", ".*", ".*", ".*"
            )
            async with catalogue.changing() as edit:
                edit.delete_user("guest")
                edit.put_user("ops", tags=["monitoring"])

    async def later() -> None:
        async with open_engine(data_dir) as core:
            others = Seed(("/", "w"), (*SEED.users, SeedUser("ops", "other")))
            catalogue = await Catalogue.open(core, others)
            assert [each.name for each in catalogue.tables.rows(User)] == ["ops"]
            assert [line.split(" ")[1] for line in catalogue.ignored[:2]] == ["'w'", "'guest'"]
            assert catalogue.ignored[2:] == (
                "the password set for user 'ops' is not the one in the store",
                "the tags set for user 'ops' are not those in the store",
            )
            assert not any("secret" in line for line in catalogue.ignored)

    trio.run(first)
    trio.run(later)


def test_a_seed_that_cannot_be_leaves_nothing(data_dir: Path) -> None:
    async def main() -> None:
        async with open_engine(data_dir) as core:
            with pytest.raises(NamespaceTaken, match="'public/v'.*public/v.*'v'"):
                await Catalogue.open(core, Seed(("v", "public/v")))
            catalogue = await Catalogue.open(core, SEED)
            assert len(catalogue.tables.rows(Vhost)) == 2

    trio.run(main)


@pytest.mark.parametrize("many", [1, RECORDS_PER_TURN, RECORDS_PER_TURN + 1, 5 * RECORDS_PER_TURN])
def test_many_records_are_encoded_in_a_thread(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    by_loop = Counter[bool]()

    def counted(record: Record) -> bytes:
        by_loop[current_thread() is main_thread()] += 1
        return encode(record)

    async def main() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, SEED)
            monkeypatch.setattr(edits, "encode", counted)
            async with catalogue.changing() as edit:
                for number in range(many):
                    edit.put_user(f"u{number}", tags=["monitoring"])
            assert len(catalogue.tables.rows(User)) == many + 1

    trio.run(main)
    assert by_loop == {many <= RECORDS_PER_TURN: many}


def test_vhosts_of_a_store_that_is_older_stay_where_their_topics_are(data_dir: Path) -> None:
    async def main() -> None:
        async with open_engine(data_dir) as core:
            await core.create_topic("persistent://public/a%20b/q")
            catalogue = await Catalogue.open(core, Seed(("/", "a b", "c d")))
            assert [each.namespace for each in catalogue.tables.rows(Vhost)] == [
                "public/default", "public/a%20b", "public/c=20d",
            ]  # fmt: skip
            vhost = catalogue.vhost_of("public/a%20b")
            assert vhost is not None
            assert vhost.name == "a b"
            assert catalogue.vhost_of("public/other") is None

    trio.run(main)


def test_a_change_is_reported_once_it_is_visible_and_a_failed_one_never(store: Store) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with open_engine(store.path, store=store, committing=faulty) as core:
            catalogue = await Catalogue.open(core, SEED)
            calls: list[list[Changed]] = []

            def watch(changed: object) -> None:
                assert catalogue.get(User, "u") is not None
                calls.append(list(changed))  # type: ignore[call-overload]

            catalogue.watch(watch)
            faulty.fail_next()
            with pytest.raises(StoreFailed):
                async with catalogue.changing() as edit:
                    edit.put_user("u")
            assert catalogue.get(User, "u") is None
            with pytest.raises(NoSuchUser):
                async with catalogue.changing() as edit:
                    edit.put_user("u")
                    edit.set_permissions("x", "/", "", "", "")
            assert catalogue.get(User, "u") is None
            assert not calls
            async with catalogue.changing() as edit:
                edit.put_user("u")
            assert calls == [[Changed(None, User("u"))]]
            async with catalogue.changing() as edit:
                edit.put_user("u")
            assert len(calls) == 1, "setting a value again is not a change"

    trio.run(main)


def test_a_vhost_is_gone_when_all_that_knew_of_it_have_let_it_go(data_dir: Path) -> None:
    async def main() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, SEED)
            emptied: list[tuple[str, bool]] = []

            async def companion(name: str) -> None:
                emptied.append((name, catalogue.vhost(name) is None))

            await catalogue.accompany_removals(companion)
            await catalogue.delete_vhost("v")
            assert emptied == [("v", True)]
            assert catalogue.get(Vhost, "v") is None
            with pytest.raises(NoSuchVhost):
                await catalogue.delete_vhost("v")
            async with catalogue.changing() as edit:
                edit.put_vhost("v")
            assert catalogue.vhost("v") is not None

    trio.run(main)


def test_a_removal_that_was_begun_is_gone_on_with_after_the_next_start(data_dir: Path) -> None:
    async def first() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, SEED)

            async def fails(_: str) -> None:
                raise StoreFailed("no")

            await catalogue.accompany_removals(fails)
            with pytest.raises(StoreFailed):
                await catalogue.delete_vhost("v")
            assert catalogue.vhost("v") is None
            assert catalogue.get(Vhost, "v") is not None

    async def later() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, SEED)
            emptied: list[str] = []

            async def companion(name: str) -> None:
                emptied.append(name)

            await catalogue.accompany_removals(companion)
            assert emptied == ["v"]
            assert catalogue.get(Vhost, "v") is None

    trio.run(first)
    trio.run(later)


def test_unreadable_rows_are_refused(data_dir: Path) -> None:
    async def main() -> None:
        async with open_engine(data_dir) as core:
            await core.committed(Unit(metadata=[("access/user/u", b'{"v":9}')]))
            with pytest.raises(ValueError, match="version 1"):
                await Catalogue.open(core, SEED)

    trio.run(main)


def test_a_change_is_one_commit_however_much_it_changes(store: Store) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with open_engine(store.path, store=store, committing=faulty) as core:
            catalogue = await Catalogue.open(core, SEED)
            before = faulty.commits_total
            async with catalogue.changing() as edit:
                for number in range(200):
                    edit.put_user(f"u{number}", NO_PASSWORD)
                    edit.set_permissions(f"u{number}", "/", "", "", "")
                edit.delete_user("guest")
            assert faulty.commits_total == before + 1

    trio.run(main)


def test_a_follower_of_the_catalogue_is_waited_for_and_not_cut_short(data_dir: Path) -> None:
    async def main() -> None:
        async with open_engine(data_dir) as core:
            catalogue = await Catalogue.open(core, SEED)
            followed: list[str] = []

            async def follow(changed: Sequence[Changed]) -> None:
                await trio.lowlevel.checkpoint()
                followed.extend(str(each.after and each.after.key[0]) for each in changed)

            catalogue.follow(follow)
            with trio.CancelScope() as scope:
                async with catalogue.changing() as edit:
                    edit.put_vhost("w")
                    scope.cancel()
            assert followed == ["w"]

    trio.run(main)
