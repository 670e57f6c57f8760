"""A core with a real store, checked when the test is over, and a broker context over it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from arneb.store.check import transaction_problems
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.faults import FaultyStore
from arneb_pulsar.authorization.authorizer import NO_USERS, Users
from arneb_pulsar.config import NO_AUTHORIZATION, AuthorizationConfig, PulsarConfig
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.context import BrokerContext, make_context
from arneb_pulsar.services.operations.policy_enforcer import PolicyEnforcer


@dataclass
class Running:
    """What a server test plays with."""

    core: Engine
    context: BrokerContext
    policy_enforcer: PolicyEnforcer
    store: FaultyStore


OpenBroker = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def open_broker(tmp_path: Path) -> Iterator[OpenBroker]:
    """Opens the core, with the settings given; it may be opened again on the same data."""
    path = tmp_path / "data"

    @asynccontextmanager
    async def opened(
        clock: Clock | None = None,
        *,
        authorization: AuthorizationConfig = NO_AUTHORIZATION,
        users: Users = NO_USERS,
        **settings: Any,
    ) -> AsyncIterator[Running]:
        with closing(Store.open(path)) as store:
            faulty = FaultyStore(store)
            async with open_engine(path, store=store, committing=faulty) as core:
                context = make_context(
                    core, PulsarConfig(**settings), clock, authorization=authorization, users=users
                )
                yield Running(core, context, PolicyEnforcer(context), faulty)

    yield opened
    if (path / "data.mdb").exists():
        findings = check(path)
        assert not findings, "\n".join(map(str, findings))
        with open_snapshot_environment(path) as environment, environment.snapshot() as snapshot:
            assert list(transaction_problems(snapshot)) == []
