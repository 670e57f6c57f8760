"""Copied tenants: Pulsar's tenants, clusters, resource groups and changed settings, which belong to
no namespace, at the broker of a shard other than the first.

The rule: only the first shard's leader changes them. They are copied from this node's directory of
the first shard: before any client is admitted, whenever they change, and before a namespace is
created, so that namespaces in any shard know their tenant.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import trio

from arneb.clustered.share.copied_users import FirstShard
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.resource_groups import KEYS as GROUPS
from arneb_pulsar.services.namespaces.dynamic_settings import SETTINGS
from arneb_pulsar.services.namespaces.registry import CLUSTERS, TENANTS

logger = logging.getLogger(__name__)

COPIED: Final = (TENANTS, CLUSTERS, GROUPS, SETTINGS)
"""The prefixes of the copied rows' keys."""

Editor = tuple[Callable[[str, bytes], Awaitable[None]], Callable[[str], Awaitable[None]]]
"""Puts a row as stored, and drops one."""
Rows = Mapping[str, Mapping[str, bytes]]
"""Stored rows by prefix and name."""


class CopiedTenants:
    """Copies at the brokers of one shard, one broker after another."""

    def __init__(self, first: FirstShard) -> None:
        self._first = first
        self._context: BrokerContext | None = None
        """The current broker's context."""
        self._copying = trio.Lock()

    def __repr__(self) -> str:
        return f"<CopiedTenants of {self._first!r}, {'copies' if self._context else 'rests'}>"

    async def begin(self, context: BrokerContext) -> None:
        """Copy into this broker: at once what is known; :meth:`follow` then copies changes."""
        self._context = context
        await self.copy()

    async def follow(self) -> None:
        """Copy whatever changes, until cancelled."""
        first = self._first
        while True:
            changes = first.replica.metadata_changes
            await self.copy()
            await first.metadata_other_than(changes)

    def end(self) -> None:
        """Forget the broker, which has stopped."""
        self._context = None

    async def copy(self) -> None:
        """Copy what this node's directory has now."""
        async with self._copying:
            wanted = await trio.to_thread.run_sync(_read, self._first)
            if (context := self._context) is None:
                return
            have = {prefix: _named(context.core.metadata(prefix), prefix) for prefix in COPIED}
            for prefix in COPIED:
                for change in _changes(context, prefix, wanted[prefix], have[prefix]):
                    try:
                        await change()
                    except (ValueError, KeyError) as error:
                        # Maybe of a newer version, while nodes are upgraded one by one.
                        logger.warning("cannot copy a row below %s: %r", prefix, error)
            if _documents(wanted[TENANTS]) != _documents(have[TENANTS]):
                await context.rights.look()  # administrators may have been removed


def _read(first: FirstShard) -> Rows:
    return {prefix: _named(first.replica.metadata(prefix), prefix) for prefix in COPIED}


def _named(rows: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {key.removeprefix(prefix): value for key, value in rows.items()}


def _documents(rows: Mapping[str, bytes]) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in rows.items()}


def _changes(
    context: BrokerContext, prefix: str, wanted: Mapping[str, bytes], have: Mapping[str, bytes]
) -> list[Callable[[], Awaitable[None]]]:
    """Return the changes that turn ``have`` into ``wanted``."""
    put, drop = _editors(context)[prefix]
    changed = [partial(put, name, raw) for name, raw in wanted.items() if have.get(name) != raw]
    return [*changed, *(partial(drop, name) for name in have if name not in wanted)]


def _editors(context: BrokerContext) -> Mapping[str, Editor]:
    """Return the editors by prefix."""
    registry, groups, settings = context.namespaces, context.resource_groups, context.settings
    return {
        TENANTS: (
            lambda name, raw: registry.put_tenant(name, json.loads(raw)), registry.drop_tenant,
        ),
        CLUSTERS: (
            lambda name, raw: registry.put_cluster(name, json.loads(raw)),
            lambda name: registry.put_cluster(name, None),
        ),
        GROUPS: (lambda name, raw: groups.put(name, json.loads(raw), replace=True), groups.drop),
        SETTINGS: (lambda name, raw: settings.put(name, raw.decode()), settings.drop),
    }  # fmt: skip
