"""The shards of a node, as its settings have them: what each has, and where it is kept.

The rule: the first has what no other names, in the node's own directory, so that one shard is the
same with and without others; each of the others has a directory below that.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from arneb.settings.cluster import ClusterTable
from arneb.settings.config import Config
from arneb.settings.shards import (
    ClusterShardTable,
    check_shards,
    directories_of,
    directory_of,
)
from arneb_cluster.routing.division import Division
from arneb_core.api.errors import StoreUnusable

DATA_FILE: Final = "data.mdb"
"""What is in a directory that is somebody's."""


def other_shards(table: ClusterTable) -> Sequence[ClusterShardTable]:
    """Those beside the first."""
    return table.shards


def division_of(first: str, others: Sequence[ClusterShardTable]) -> Division:
    """Which shard has what. Raises :class:`ValueError` for what would be in two."""
    check_shards(first, others)
    namespaces = {space: each.name for each in others for space in each.own_namespaces}
    tenants = {tenant: each.name for each in others for tenant in each.tenants}
    return Division(first, namespaces, tenants)


def check_directories(data_dir: Path, others: Sequence[ClusterShardTable]) -> None:
    """Raise :class:`StoreUnusable` for what is kept of a shard that settings name no more: nobody
    would lead it, and what it has would seem to be nowhere."""
    named = {each.name for each in others}
    for path in directories_of(data_dir)[1:]:
        if path.name not in named and (path / DATA_FILE).exists():
            raise StoreUnusable(
                f"{path} has what is kept in shard '{path.name}', which cluster.shards does not "
                "name: name it, or remove that directory if nothing in it is wanted"
            )


def config_of(config: Config, shard: ClusterShardTable) -> Config:
    """The settings of a node as they are for the broker of a shard that is not the first."""
    cluster = replace(
        config.cluster, shard=shard.name, prefer=shard.prefer or config.cluster.prefer, shards=()
    )
    return replace(config, data_dir=directory_of(config.data_dir, shard.name), cluster=cluster)
