"""Directories: opens a shard's directory on this node, ready to take part.

The rule: a directory is checked before anything is served: it must belong to the topic, and the
topic must have everything that it lacks. Otherwise a copy from another node replaces it first.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import trio

from arneb.clustered.shards.figures import about_copy
from arneb.clustered.shards.pulsar_service import check_directory
from arneb.logs.log_lines import Say
from arneb.store.check import check_store
from arneb_cluster.copies.need import needs_copy
from arneb_cluster.copies.taker import Taker
from arneb_cluster.protocol.values import Applied
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.replica import Replica
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.settings import ShardSettings
from arneb_pulsar.client import Client
from arneb_pulsar.client.errors import PulsarError

RETRY_S: Final = 1.0
"""The pause before Pulsar is tried again."""

Tell = Callable[[Callable[[], Mapping[str, Any]] | None], None]
"""Sets how the node reports its progress while it takes a copy; None: it no longer takes one."""

logger = logging.getLogger(__name__)


class Directories:
    """The directories of one node, opened one after another."""

    def __init__(self, client: Client, internal: InternalSettings, say: Say, tell: Tell) -> None:
        self._client = client
        self._internal = internal
        self._say = say
        self._tell = tell

    def __repr__(self) -> str:
        return f"<Directories of {self._internal.node}>"

    async def open(self, path: Path, settings: ShardSettings) -> Replica:
        """Open a directory, ready to take part; the caller closes its store. Raises
        :class:`StoreUnusable`."""
        replica = await trio.to_thread.run_sync(Replica.open, path)
        try:
            topic = LogTopic(self._client, settings.topic)
            await check_directory(topic, replica)
            while await self._needs_copy(topic, settings, replica.applied):
                replica.store.close()
                await self._take_copy(path, settings, replica.applied)
                replica = await trio.to_thread.run_sync(Replica.open, path)
        except BaseException:
            replica.store.close()
            raise
        return replica

    async def _needs_copy(self, topic: LogTopic, settings: ShardSettings, applied: Applied) -> bool:
        while True:
            try:
                return await needs_copy(self._client, topic, settings, applied)
            except PulsarError as error:
                logger.warning("%r: %s", topic, error)
                await trio.sleep(RETRY_S)

    async def _take_copy(self, path: Path, settings: ShardSettings, applied: Applied) -> None:
        taker = Taker(self._client, self._internal, settings, path, applied, check_store)
        self._say(f"{path} lacks what {settings.topic} has no more, or is empty: takes a copy")
        self._tell(lambda: about_copy(taker.statistics, settings))
        await taker.take()
        self._tell(None)
        self._say(f"{path} has a copy of what node {taker.statistics.source} has")
