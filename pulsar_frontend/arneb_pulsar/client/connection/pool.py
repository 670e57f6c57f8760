"""The pool: the connections of a client, opened on demand.

The rule: producers and consumers of one broker share its connections, as many as are configured; a
fencing producer has one of its own, because a broker closes the whole connection of a producer that
it fences.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

import anyio
from anyio.abc import TaskGroup

from arneb_pulsar.client.connection.authentication import Authentication
from arneb_pulsar.client.connection.connection import Connection, open_connection
from arneb_pulsar.client.connection.dialling import Address, Dial
from arneb_pulsar.client.connection.rotation import NOBODY_THERE, Rotation
from arneb_pulsar.client.errors import ClientClosed
from arneb_pulsar.client.tasks.clock import Clock

IDLE_MAX: Final = 16
"""Unused connections that are kept open."""

Key = tuple[Address, Address, int]
"""The broker, the address dialled, and which of the broker's connections."""


class Pool:
    """The connections of one client."""

    def __init__(
        self,
        dial: Dial,
        authentication: Authentication,
        clock: Clock,
        tasks: TaskGroup,
        random: Random,
        *,
        addresses: Sequence[Address],
        per_broker: int,
        timeout_s: float,
    ) -> None:
        """``addresses`` are those of the service URL, any of which may be used."""
        self._dial = dial
        self._authentication = authentication
        self._clock = clock
        self._tasks = tasks
        self._random = random
        self._service = Rotation(addresses, NOBODY_THERE)
        self._per_broker = per_broker
        self._timeout_s = timeout_s
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, anyio.Lock] = {}
        self._own: set[Connection] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Pool of {len(self._open)} connections and {len(self._own)} of a producer's own>"

    async def any(self) -> Connection:
        """Return a connection to any broker of the service. Raises as :meth:`.Rotation.ask`."""
        return await self._service.ask(self.to)

    async def to(self, address: Address, through: Address | None = None) -> Connection:
        """Return one of the connections to a broker. Raises as :func:`open_connection`."""
        which = self._random.randrange(self._per_broker)
        key = address, through or address, which
        found = self._open.get(key)
        if found is not None and found.is_open:
            return found
        async with self._opening.setdefault(key, anyio.Lock()):
            found = self._open.get(key)
            if found is None or not found.is_open:
                found = await self._make(address, through)
                self._tidy_up()
                self._open[key] = found
        return found

    async def own(self, address: Address, through: Address | None = None) -> Connection:
        """Open a connection for one user only; :meth:`release` closes it."""
        made = await self._make(address, through)
        self._own = {each for each in self._own if each.is_open} | {made}
        return made

    def release(self, connection: Connection) -> None:
        """Close a connection made by :meth:`own`; leave a shared one open."""
        if connection in self._own:
            self._own.discard(connection)
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in (*self._open.values(), *self._own):
            connection.close()
        self._open, self._own = {}, set()

    def _tidy_up(self) -> None:
        """Drop closed connections, and close the oldest unused ones beyond :data:`IDLE_MAX`: those
        to brokers that were asked once, for a lookup."""
        idle = [key for key, each in self._open.items() if not each.machine.is_used]
        gone = [key for key in idle if not self._open[key].is_open]
        for key in {*gone, *idle[:-IDLE_MAX]}:
            self._open.pop(key).close()
            if not self._opening[key].locked():
                del self._opening[key]

    async def _make(self, address: Address, through: Address | None) -> Connection:
        if self._closed:
            raise ClientClosed("the client was closed")
        return await open_connection(
            address,
            self._dial,
            self._authentication,
            self._clock,
            self._tasks,
            timeout_s=self._timeout_s,
            through=through,
        )
