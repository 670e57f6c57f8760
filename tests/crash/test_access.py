"""A SIGKILL at any instant of an administrative change leaves it done or not done."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import Permission, TopicPermission, User, Vhost
from arneb_core.access.seed import Seed
from arneb_core.engine.engine import open_engine
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry

NAMESPACE = "public/default"
KILLS = 12
LOAD_S_MAX = 0.25

CHANGES = """
import sys, trio
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.passwords import NO_PASSWORD
from arneb_core.access.seed import Seed
from arneb_core.engine.engine import open_engine

async def main(path, number):
    async with open_engine(path) as core:
        catalogue = await Catalogue.open(core, Seed(("/",)))
        print("ready", flush=True)
        while True:
            async with catalogue.changing() as edit:
                name = f"u{number}"
                edit.put_vhost(f"v{number}")
                edit.put_user(name, NO_PASSWORD, ["tag"])
                edit.set_permissions(name, "/", "a", "b", "c")
                edit.set_topic_permissions(name, f"v{number}", "x", "", "")
                if number >= 2:
                    edit.delete_user(f"u{number - 2}")
            print(number, flush=True)
            number += 1

trio.run(main, sys.argv[1], int(sys.argv[2]))
"""


OF_ROLES = """
import sys, trio
from dataclasses import replace
from arneb_core.engine.engine import open_engine
from arneb_pulsar.admin.policies.permissions import granted, revoked
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry

TOPICS = [f"persistent://public/default/{name}" for name in "abc"]

async def main(path, number):
    async with open_engine(path) as core:
        registry = NamespaceRegistry(core, ("public/default",), PulsarConfig().policies)
        print("ready", flush=True)
        while True:
            role = f"r{number}"
            await registry.change_topic_policies(
                {each: lambda own: revoked(f"r{number - 2}")(granted(role, ["consume"])(own))
                 for each in TOPICS}
            )
            await registry.change_namespace(
                "public/default", lambda own: replace(own, permissions={role: ["produce"]},
                                                      subscription_roles={"s": [role]})
            )
            print(number, flush=True)
            number += 1

trio.run(main, sys.argv[1], int(sys.argv[2]))
"""


def changed_until_killed(path: Path, number: int, seconds: float, changes: str = CHANGES) -> int:
    """Make changes until the kill; the result is the number of the first one not known to be
    done."""
    command = [sys.executable, "-c", changes, str(path), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.send_signal(signal.SIGKILL)
        done = [int(line) for line in process.stdout.read().splitlines() if line.isdigit()]
    return max(done, default=number - 1) + 1


def found(path: Path) -> tuple[set[str], ...]:
    async def main() -> tuple[set[str], ...]:
        async with open_engine(path) as core:
            tables = (await Catalogue.open(core, Seed(("/",)))).tables
            return (
                {each.name for each in tables.rows(User)},
                {each.user for each in tables.rows(Permission)},
                {each.user for each in tables.rows(TopicPermission)},
                {each.name for each in tables.rows(Vhost)},
            )

    return trio.run(main)


def test_a_change_that_is_killed_is_done_or_not_done(tmp_path: Path) -> None:
    dice, number = random.Random(12), 0
    for _ in range(KILLS):
        number = changed_until_killed(tmp_path / "data", number, dice.random() * LOAD_S_MAX)
        users, permitted, keyed, vhosts = found(tmp_path / "data")
        assert users == permitted == keyed, "a user and its permissions come and go together"
        last = len(vhosts) - 2
        assert last in (number - 1, number), "every answered change is there, and one more may be"
        assert users == {f"u{each}" for each in (last - 1, last) if each >= 0}
        assert vhosts == {"/", *(f"v{each}" for each in range(last + 1))}
        number = last + 1
    assert number > KILLS, "some changes were made"


def test_a_permission_of_a_role_that_is_killed_is_done_or_not_done(tmp_path: Path) -> None:
    dice, number = random.Random(13), 0
    for _ in range(KILLS):
        seconds = dice.random() * LOAD_S_MAX
        number = changed_until_killed(tmp_path / "data", number, seconds, OF_ROLES)
        of_topics, own = permissions_found(tmp_path / "data")
        if not of_topics:
            assert number == 0
            continue
        assert len(of_topics) == 3
        assert len({tuple(each) for each in of_topics.values()}) == 1, "all topics in one commit"
        last = max(int(role[1:]) for role in of_topics.popitem()[1])
        assert last in (number - 1, number), "every answered change is there, and one more may be"
        (role,) = own.permissions or {f"r{last - 1}": []}
        assert role in (f"r{last}", f"r{last - 1}")
        assert list(own.subscription_roles.get("s", [role])) == [role], "both in one commit"
        number = last + 1
    assert number > KILLS, "some changes were made"


def permissions_found(path: Path) -> tuple[dict[str, dict[str, list[str]]], Policies]:
    async def main() -> tuple[dict[str, dict[str, list[str]]], Policies]:
        async with open_engine(path) as core:
            registry = NamespaceRegistry(core, (NAMESPACE,), PulsarConfig().policies)
            return registry.topic_permissions(NAMESPACE), registry.namespace_policies(NAMESPACE)

    return trio.run(main)
