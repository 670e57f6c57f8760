"""The shards of a node, as its settings name them: what belongs to each, and its directory.

The rule: everything that no other shard names belongs to the first, which uses the node's own
directory, so a node with one shard can get others later. Each of the others has a directory below
it.
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
"""The file that every shard's directory in use contains."""


def other_shards(table: ClusterTable) -> Sequence[ClusterShardTable]:
    """Return the shards other than the first."""
    return table.shards


def division_of(first: str, others: Sequence[ClusterShardTable]) -> Division:
    """Return what belongs to which shard. Raises :class:`ValueError` for anything named twice."""
    check_shards(first, others)
    namespaces = {space: each.name for each in others for space in each.own_namespaces}
    tenants = {tenant: each.name for each in others for tenant in each.tenants}
    return Division(first, namespaces, tenants)


def check_directories(data_dir: Path, others: Sequence[ClusterShardTable]) -> None:
    """Raise :class:`StoreUnusable` for the directory of a shard that the settings no longer name:
    no node would lead it, and its content would seem lost."""
    named = {each.name for each in others}
    for path in directories_of(data_dir)[1:]:
        if path.name not in named and (path / DATA_FILE).exists():
            raise StoreUnusable(
                f"{path} has what is kept in shard '{path.name}', which cluster.shards does not "
                "name: name it, or remove that directory if nothing in it is wanted"
            )


def config_of(config: Config, shard: ClusterShardTable) -> Config:
    """Return the node's settings for the broker of a shard other than the first."""
    cluster = replace(
        config.cluster, shard=shard.name, prefer=shard.prefer or config.cluster.prefer, shards=()
    )
    return replace(config, data_dir=directory_of(config.data_dir, shard.name), cluster=cluster)
