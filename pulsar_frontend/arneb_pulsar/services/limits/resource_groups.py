"""The resource groups of one broker, and the rates that their producers share.

The rule: what an operator sets is on disk before it applies, and then applies at once to topics
with producers.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

import trio

from arneb_core.api.core import Core, Unit
from arneb_pulsar.namespaces.rates import Throttle
from arneb_pulsar.namespaces.resource_groups import ResourceGroup
from arneb_pulsar.services.clock import Clock

KEYS: Final = "pulsar/resource-group/"


class ResourceGroups:
    """All resource groups, by their names."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self._clock = clock
        self._groups = {
            key.removeprefix(KEYS): ResourceGroup().changed(json.loads(raw))
            for key, raw in core.metadata(KEYS).items()
        }
        self._throttles: dict[str, Throttle] = {}
        self._changing = trio.Lock()
        self.changed: Callable[[], None] = lambda: None
        """Called when a group has changed."""

    def __repr__(self) -> str:
        return f"<ResourceGroups {sorted(self._groups)}>"

    @property
    def all(self) -> Mapping[str, ResourceGroup]:
        """All groups."""
        return self._groups

    async def put(self, name: str, document: object, *, replace: bool = False) -> None:
        """Create a group, or change one; ``replace``: keep nothing of the old one. Raises
        :class:`ValueError`."""
        async with self._changing:
            before = None if replace else self._groups.get(name)
            group = (before or ResourceGroup()).changed(document)
            await self._keep(name, json.dumps(group.document).encode())
            self._groups[name] = group
        self._tell(name)

    async def drop(self, name: str) -> None:
        """Remove the group."""
        async with self._changing:
            await self._keep(name, None)
            self._groups.pop(name, None)
        self._tell(name)

    def throttle(self, name: str | None) -> Throttle | None:
        """Return the throttle that the producers of a group's topics share; None if they have no
        rate."""
        group = self._groups.get(name) if name is not None else None
        if name is None or group is None or not group.publish_rate.limits:
            return None
        found = self._throttles.get(name)
        if found is None or found.rate != group.publish_rate:
            found = self._throttles[name] = Throttle(group.publish_rate, self._clock.now())
        return found

    def _tell(self, name: str) -> None:
        self._throttles.pop(name, None)
        self.changed()

    async def _keep(self, name: str, value: bytes | None) -> None:
        with trio.CancelScope(shield=True):  # what is on disk must be in memory too
            await self._core.committed(Unit(metadata=[(KEYS + name, value)]))
