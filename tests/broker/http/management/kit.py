"""A site over an engine, and a caller that needs no socket."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.amqp_frontend.opening import open_topology

from arneb.http.management.answering import Request, answer
from arneb.http.management.figures.rates import Rates
from arneb.http.management.figures.totals import Totals
from arneb.http.management.requests.calls import Reply, Written
from arneb.http.management.sessions import Sessions
from arneb.http.management.site import ListeningPort, Site
from arneb.monitoring.alarms import Alarms
from arneb.settings.watermarks import DEFAULT_WATERMARKS, Levels
from arneb_amqp.config import AmqpConfig, User
from arneb_amqp.server.roster import Roster
from arneb_amqp.shovels.shovels import Shovels
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalVerdicts
from arneb_core.access.principals import Credentials, LoginRefused, Principal
from arneb_core.access.records import User as UserRecord
from arneb_core.access.tables import Tables
from arneb_core.engine.engine import open_engine

ADMIN = "admin"
TAGS = ("administrator", "monitoring", "policymaker", "management", "")
"""There is a user for each, named after the tag; the user without any is ``nobody``."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a call."""

    reply: Reply

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def json(self) -> Any:
        """As it would be read."""

        def text(of: Written) -> Any:
            return json.loads(of.text)

        return json.loads(json.dumps(self.reply.body, default=text))


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls a site."""

    site: Site

    async def __call__(
        self, method: str, path: str, body: Any = None, *, user: str | None = ADMIN, **headers: str
    ) -> Answered:
        """One call; without a user it has no credentials."""
        raw, _, query = f"/api/{path}".partition("?")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if user is not None:
            sent["authorization"] = "Basic " + b64encode(f"{user}:p".encode()).decode()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, raw, query, data, sent, "127.0.0.1", loopback=True)
        return Answered(await answer(self.site, request))

    async def does(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The same for a call that is expected to succeed; returns the body of its answer."""
        answered = await self(method, path, body, **more)
        assert answered.status < 300, (method, path, answered.reply)
        return answered.json


class Plain:
    """Every user's password is ``p``. Nothing is hashed, which would take a thread each time."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def log_in(self, credentials: Credentials) -> Principal:
        name = credentials.name
        user = self._tables.get(UserRecord, name)
        if user is None or credentials.password != "p":
            raise LoginRefused(name)
        return Principal(name, InternalVerdicts(self._tables, name), frozenset(user.tags))


@asynccontextmanager
async def managed(path: Path) -> AsyncIterator[Caller]:
    """A site over a data directory, with a user for every tag and the vhosts ``/`` and ``v/m``."""
    users = [User(ADMIN, "p"), *(User(tag or "nobody", "p", tags=(tag,)) for tag in TAGS)]
    async with open_engine(path) as engine:
        config = AmqpConfig(users=tuple(users), vhosts=("/", "v/m"))
        topology = await open_topology(engine, config)
        tables = topology.catalogue.tables
        alarms = Alarms(
            DEFAULT_WATERMARKS, path, available=lambda: 1 << 40, read=lambda _: Levels(1, 1 << 40)
        )
        await alarms.look()
        yield Caller(
            Site(
                engine,
                topology.catalogue,
                topology,
                Roster(),
                Authority([Plain(tables)], lambda _: False),
                config,
                alarms,
                Rates(),
                Totals(),
                "arneb@here",
                "1.2.3",
                str(path),
                lambda: [ListeningPort("amqp", "127.0.0.1", 5672)],
                lambda _: [],
                0,
                Shovels(engine, topology),
                Sessions(topology.catalogue),
            )
        )
