"""Pulsar's roles and AMQP's users: which are one and the same, and what follows from that."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.amqp_frontend.opening import open_topology

from arneb.logins.principals import AccessTable, PrincipalTable, RolesAsUsers, queue_in
from arneb_amqp.config import AmqpConfig
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import User
from arneb_core.access.rights import Right
from arneb_core.engine.engine import open_engine
from arneb_pulsar.authorization.authorizer import Authorizer
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.config import AuthorizationConfig
from arneb_pulsar.names import parse_topic
from arneb_pulsar.namespaces.policies import Policies

QUEUE = "persistent://public/default/orders"
OTHER = "persistent://public/default/other"
PRODUCE, CONSUME = TopicOperation.PRODUCE, TopicOperation.CONSUME
TERMINATE = TopicOperation.TERMINATE


@dataclass
class EverythingGranted:
    """Pulsar's permissions allow everything to everybody here."""

    roles: tuple[str, ...]

    def tenant(self, name: str) -> dict[str, list[str]]:
        return {"adminRoles": ["chief"]}

    def has_tenant(self, name: str) -> bool:
        return True

    def namespace_policies(self, namespace: str) -> Policies:
        return Policies(permissions={role: ["produce", "consume"] for role in self.roles})

    def topic_policies(self, topic: str) -> Policies:
        return Policies()


@asynccontextmanager
async def catalogue_with_queue(path: Path) -> AsyncIterator[Catalogue]:
    """The queue ``orders``, and users who may read it, write it, configure it or do nothing."""
    async with open_engine(path) as core:
        topology = await open_topology(core, AmqpConfig())
        catalogue = topology.catalogue
        async with catalogue.changing() as edit:
            for name, patterns in {
                "reader": ("", "", "^orders$"),
                "writer": ("", "^orders$", ""),
                "arranger": ("^orders$", "", ""),
                "chief": ("", "", ""),
            }.items():
                edit.put_user(name)
                edit.set_permissions(name, "/", *patterns)
            edit.put_user("stranger")
            edit.put_user("boss", tags=["administrator"])
        yield catalogue


def roles_of(catalogue: Catalogue, table: AccessTable | None = None) -> RolesAsUsers:
    def has_queue(vhost: str, name: str) -> bool:
        return (vhost, name) == ("/", "orders")

    return RolesAsUsers(table or AccessTable(), catalogue, has_queue, lambda name: name == "guest")


def allowed(
    catalogue: Catalogue, role: str, topic: str, table: AccessTable | None = None
) -> set[TopicOperation]:
    config = AuthorizationConfig(True)
    granted = EverythingGranted((role,))
    authorizer = Authorizer(config, granted, roles_of(catalogue, table))
    name = parse_topic(topic)
    return {
        each
        for each in (PRODUCE, CONSUME, TERMINATE)
        if authorizer.allows_topic(Caller(role), name, each)
    }


@pytest.mark.parametrize(
    ("role", "of_queue", "of_other"),
    [
        ("reader", {CONSUME}, {PRODUCE, CONSUME}),
        ("writer", {PRODUCE}, {PRODUCE, CONSUME}),
        ("arranger", set(), {PRODUCE, CONSUME}),
        ("stranger", set(), {PRODUCE, CONSUME}),
        ("nobody's name", {PRODUCE, CONSUME}, {PRODUCE, CONSUME}),
        ("chief", set(), {PRODUCE, CONSUME, TERMINATE}),
        ("boss", {PRODUCE, CONSUME, TERMINATE}, {PRODUCE, CONSUME, TERMINATE}),
        ("guest", {PRODUCE, CONSUME}, {PRODUCE, CONSUME}),
    ],
)  # fmt: skip
async def test_what_a_user_may_not_do_to_a_queue_the_role_may_not_do_to_its_topic(
    tmp_path: Path, role: str, of_queue: set[TopicOperation], of_other: set[TopicOperation]
) -> None:
    async with catalogue_with_queue(tmp_path) as catalogue:
        assert allowed(catalogue, role, QUEUE) == of_queue
        assert allowed(catalogue, role, OTHER) == of_other


async def test_the_settings_say_which_role_is_which_user(tmp_path: Path) -> None:
    async with catalogue_with_queue(tmp_path) as catalogue:
        apart = AccessTable(same_names=False)
        assert allowed(catalogue, "reader", QUEUE, apart) == {PRODUCE, CONSUME}
        named = AccessTable(same_names=False, principals=(PrincipalTable("spark", "reader"),))
        assert allowed(catalogue, "spark", QUEUE, named) == {CONSUME}
        renamed = AccessTable(principals=(PrincipalTable("reader", "writer"),))
        assert allowed(catalogue, "reader", QUEUE, renamed) == {PRODUCE}
        assert not roles_of(catalogue, apart).is_administrator("boss")
        with pytest.raises(ValueError, match="each role once"):
            AccessTable(principals=(PrincipalTable("a", "b"), PrincipalTable("a", "c")))


async def test_a_change_of_the_user_applies_to_the_role_at_once(tmp_path: Path) -> None:
    async with catalogue_with_queue(tmp_path) as catalogue:
        roles = roles_of(catalogue)
        assert not roles.may("reader", QUEUE, Right.WRITE)
        async with catalogue.changing() as edit:
            edit.set_permissions("reader", "/", "", "orders", "")
        assert roles.may("reader", QUEUE, Right.WRITE)
        assert not roles.may("reader", QUEUE, Right.READ)
        async with catalogue.changing() as edit:
            edit.put_user("reader", tags=["administrator"])
        assert roles.is_administrator("reader")
        async with catalogue.changing() as edit:
            edit.delete_user("reader")
        assert catalogue.get(User, "reader") is None
        assert not roles.is_administrator("reader")


async def test_a_user_who_may_log_in_only_from_this_machine_is_no_super_user(
    tmp_path: Path,
) -> None:
    async with catalogue_with_queue(tmp_path) as catalogue:
        guest = catalogue.get(User, "guest")
        assert guest is not None
        assert "administrator" in guest.tags
        assert not roles_of(catalogue).is_administrator("guest")


def test_a_topic_belongs_to_the_queue_of_its_name() -> None:
    assert queue_in("persistent://public/v/a%2Fb") == ("public/v", "a/b")
    assert queue_in("non-persistent://public/v/a") == ("", "")
