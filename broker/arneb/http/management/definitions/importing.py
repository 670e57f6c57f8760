"""Importing: creates what a file of definitions contains.

The rule: users, vhosts, permissions, parameters and policies are one commit. Then come exchanges,
queues and bindings; existing ones stay as they are. If some cannot be created, the others are, and
the answer names the failures. Shovels come last, because a shovel declares the queues that it
needs, perhaps differently from the file.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import trio

from arneb.http.management.access.users import put_user
from arneb.http.management.access.vhosts import grant_all
from arneb.http.management.definitions.file import BRACKETS_MAX, Definitions, definitions_in
from arneb.http.management.requests.calls import Refused, bad_request
from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.server.operations.connectionless import NO_CONNECTION
from arneb_amqp.shovels.settings import COMPONENT as SHOVEL
from arneb_amqp.topology.footprint import of_binding, of_exchange, of_queue
from arneb_amqp.topology.queues.declaration import Declaration
from arneb_amqp.topology.topology import Topology
from arneb_core.access.catalogue import Catalogue, hashed
from arneb_core.access.edits import Edit
from arneb_core.access.errors import AccessError
from arneb_core.access.passwords import PasswordHash
from arneb_core.api.encoding.json_text import InvalidJson, parse_json
from arneb_core.api.errors import CoreError
from arneb_core.api.process.waiting import TOGETHER_MAX

logger = logging.getLogger(__name__)

PUTS_PER_TURN: Final = 200
"""Rows put into the change in one turn: about a millisecond."""

SHOWN_MAX: Final = 20
"""Failures named in an answer."""


async def import_definitions(
    catalogue: Catalogue, topology: Topology, definitions: Definitions, maker: str | None = None
) -> None:
    """Import all of ``definitions``. The user ``maker``, if given, gets all rights in the vhosts
    that this creates. Raises 400, either before anything is done or naming what failed."""
    passwords = [
        await hashed(given) if isinstance(given, str) else given
        for _, given, _, _ in definitions.users
    ]
    puts = _puts(catalogue, definitions, passwords, maker)
    try:
        async with catalogue.changing() as edit:
            while batch := list(islice(puts, PUTS_PER_TURN)):
                for put in batch:
                    put(edit)
                await trio.lowlevel.checkpoint()
            for rows in (definitions.exchanges, definitions.queues, definitions.bindings):
                for vhost in dict.fromkeys(map(itemgetter(0), rows)):
                    edit.vhost(vhost)
            for vhost, _, _ in definitions.shovels:
                edit.vhost(vhost)
    except AccessError as error:
        raise bad_request(f"nothing was imported: {error}") from error
    failures: list[str] = []
    making = _Making(topology, failures)
    await making.all(partial(making.exchange, *each) for each in definitions.exchanges)
    await making.all(partial(making.queue, *each) for each in definitions.queues)
    await making.all(partial(making.binding, *each) for each in definitions.bindings)
    if definitions.shovels:
        async with catalogue.changing() as edit:
            for vhost, name, value in definitions.shovels:
                edit.set_parameter(vhost, SHOVEL, name, value)
    for each in definitions.ignored:
        logger.warning("importing definitions: %s means nothing here and was left out", each)
    if failures:
        shown = "; ".join(failures[:SHOWN_MAX])
        more = f"; and {len(failures) - SHOWN_MAX} more" if len(failures) > SHOWN_MAX else ""
        raise bad_request(f"everything was imported but {len(failures)}: {shown}{more}")


def _puts(
    catalogue: Catalogue,
    definitions: Definitions,
    passwords: Sequence[PasswordHash | None],
    maker: str | None,
) -> Iterator[Callable[[Edit], object]]:
    """Yield the changes of the catalogue, in order."""
    for (name, _, tags, limits), password in zip(definitions.users, passwords, strict=True):
        yield partial(put_user, name=name, password=password, tags=tags, limits=limits)
    for vhost, put_vhost in definitions.vhosts:
        yield put_vhost
        if maker is not None and catalogue.vhost(vhost) is None:
            yield partial(grant_all, vhost=vhost, user=maker)
    yield from definitions.access


class _Making:
    """Creates what is missing, several at a time, so that they share commits."""

    def __init__(self, topology: Topology, failures: list[str]) -> None:
        self._topology = topology
        self._failures = failures

    def __repr__(self) -> str:
        return f"<_Making, {len(self._failures)} failures>"

    async def all(self, makings: Iterator[Callable[[], Awaitable[None]]]) -> None:
        """Create all of these; they do not depend on one another."""
        while together := list(islice(makings, TOGETHER_MAX)):
            async with trio.open_nursery() as nursery:
                for each in together:
                    nursery.start_soon(self._try, each)

    async def _try(self, make: Callable[[], Awaitable[None]]) -> None:
        try:
            await make()
        except AmqpError as error:
            self._failures.append(error.explanation)
        except CoreError as error:
            self._failures.append(str(error))

    async def exchange(self, name: str, exchange: Exchange) -> None:
        """Declare an exchange. Raises the errors of an AMQP client's declaration."""
        vhost = self._topology.vhost(name)
        assert vhost is not None, "it was there when the import began"
        async with self._topology.changing(lambda: of_exchange(name, exchange.name)):
            if exchange.name not in vhost.router.exchanges:
                await vhost.exchanges.declare(exchange)

    async def queue(self, name: str, wanted: Declaration) -> None:
        """Declare a queue. Raises the errors of an AMQP client's declaration."""
        vhost = self._topology.vhost(name)
        assert vhost is not None, "it was there when the import began"
        async with self._topology.changing(lambda: of_queue(name, wanted.name)):
            if not vhost.has_queue(wanted.name):
                await vhost.queues.declare(wanted)

    async def binding(self, name: str, binding: Binding) -> None:
        """Create a binding. Raises the errors of an AMQP client's binding."""
        vhost = self._topology.vhost(name)
        assert vhost is not None, "it was there when the import began"
        touched = partial(
            of_binding, name, vhost.router, binding.source, binding.kind, binding.destination,
            goes=False,
        )  # fmt: skip
        async with self._topology.changing(touched):
            if binding not in vhost.router.bindings_from(binding.source):
                await vhost.exchanges.bind(binding, NO_CONNECTION)


Part = Callable[[dict[str, Any]], dict[str, Any]]
"""Selects the part of a file to import."""


async def load_definitions(
    catalogue: Catalogue, topology: Topology, path: Path, part: Part | None = None
) -> int:
    """Import a file, or all files ``*.json`` of a directory in name order, or a ``part`` of each.
    Returns the number of files. Raises :class:`ValueError` that names the file."""
    where = trio.Path(path)
    try:
        files = [where]
        if await where.is_dir():
            files = sorted(await where.glob("*.json"))
        for file in files:
            where = file
            data = await file.read_bytes()
            if part is not None:
                data = await trio.to_thread.run_sync(_cut, data, part)
            read = await trio.to_thread.run_sync(definitions_in, data, None)
            await import_definitions(catalogue, topology, read)
    except Refused as refused:
        raise ValueError(f"{where}: {refused.reason}") from refused
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    return len(files)


def _cut(data: bytes, part: Part) -> bytes:
    """Return the selected part. Data that is no document stays as it is: its reader refuses it."""
    try:
        document = parse_json(data, brackets_max=BRACKETS_MAX)
    except InvalidJson:
        return data
    return json.dumps(part(document)).encode() if isinstance(document, dict) else data
