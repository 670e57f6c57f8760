"""The shovels of a broker: one task for each shovel parameter.

The rule: the parameters determine the shovels. A parameter that is set again makes a new shovel; a
removed shovel ends first, and what it has not acknowledged returns to its source.
"""

import logging
from collections.abc import Sequence
from typing import Final

import trio

from arneb_amqp.shovels.settings import COMPONENT, InvalidShovel, shovel_in
from arneb_amqp.shovels.shovel import Shovel, ShovelStatus
from arneb_amqp.topology.topology import Topology
from arneb_core.access.errors import AccessError
from arneb_core.access.records import GlobalParameter, Parameter
from arneb_core.access.tables import Changed
from arneb_core.api.core import Core
from arneb_core.api.errors import CoreError
from arneb_core.api.process.supervision import supervise

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""A vhost, and the name of a shovel in it."""

FEDERATION: Final = frozenset({"federation-upstream", "federation-upstream-set"})


class Shovels:
    """All shovels of one broker."""

    def __init__(self, core: Core, topology: Topology, cluster_name: str = "") -> None:
        self._core = core
        self._cluster_name = cluster_name
        self._topology = topology
        self._running: dict[Key, tuple[Shovel, trio.CancelScope]] = {}
        self._wanted: dict[Key, Parameter] = {}
        self._news = trio.Event()
        catalogue = topology.catalogue
        for row in catalogue.tables.rows(Parameter):
            self._note(None, row)
        catalogue.watch(self._changed)

    def __repr__(self) -> str:
        return f"<Shovels, {len(self._running)} running>"

    @property
    def statuses(self) -> list[ShovelStatus]:
        """The statuses of all shovels."""
        return [self._running[key][0].status for key in sorted(self._running)]

    def restart(self, vhost: str, name: str) -> bool:
        """Restart a shovel; False if there is none."""
        row = self._wanted.get((vhost, name))
        if row is not None:
            self._end((vhost, name))
            self._news.set()
        return row is not None

    async def run(self) -> None:
        """Run the shovels that the parameters describe, forever."""
        self._running.clear()
        async with trio.open_nursery() as nursery:
            while True:
                self._news = trio.Event()
                for key, row in list(self._wanted.items()):
                    if key not in self._running:
                        self._begin(nursery, key, row)
                await self._news.wait()

    def _begin(self, nursery: trio.Nursery, key: Key, row: Parameter) -> None:
        try:
            settings = shovel_in(row.value)
        except InvalidShovel as error:
            logger.warning("shovel %r in vhost %r does not run: %s", row.name, row.vhost, error)
            del self._wanted[key]
            return
        named = self._topology.catalogue.get(GlobalParameter, "cluster_name")
        cluster = str(named.value) if named is not None else self._cluster_name
        shovel = Shovel(self._core, self._topology, *key, settings, cluster)
        scope = trio.CancelScope()
        self._running[key] = shovel, scope
        nursery.start_soon(self._run, key, shovel, scope)

    async def _run(self, key: Key, shovel: Shovel, scope: trio.CancelScope) -> None:
        is_done = False

        async def run() -> None:
            nonlocal is_done
            is_done = await shovel.run()

        with scope:
            await supervise(f"shovel {shovel.name!r}", run)
            if is_done:
                await self._delete(shovel)
            else:
                await trio.sleep_forever()  # its status stays visible
        if self._running.get(key) == (shovel, scope):
            del self._running[key]
        self._news.set()

    async def _delete(self, shovel: Shovel) -> None:
        """Delete the parameter of a shovel that is done."""
        self._wanted.pop((shovel.vhost, shovel.name), None)
        logger.info("shovel %r in vhost %r is done", shovel.name, shovel.vhost)
        try:
            async with self._topology.catalogue.changing() as edit:
                edit.clear_parameter(shovel.vhost, COMPONENT, shovel.name)
        except (AccessError, CoreError) as error:
            logger.warning("cannot delete the parameter of shovel %r: %s", shovel.name, error)

    def _changed(self, changed: Sequence[Changed]) -> None:
        for before, after in changed:
            self._note(before, after)
        self._news.set()

    def _note(self, before: object, after: object) -> None:
        row = after or before
        if not isinstance(row, Parameter):
            return
        if row.component in FEDERATION and after is not None:
            logger.warning(
                "parameter %r of %s in vhost %r is kept, and nothing is federated",
                row.name, row.component, row.vhost,
            )  # fmt: skip
        if row.component != COMPONENT:
            return
        key = row.vhost, row.name
        self._end(key)
        if after is None:
            self._wanted.pop(key, None)
        else:
            self._wanted[key] = row

    def _end(self, key: Key) -> None:
        running = self._running.pop(key, None)
        if running is not None:
            running[1].cancel()
            self._removed(key)

    def _removed(self, key: Key) -> None:
        events = self._topology.broker_events
        if events.wanted:
            events.emit("shovel.worker.removed", {"vhost": key[0], "name": key[1]})
