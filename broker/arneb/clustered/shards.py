"""The shards of a node, as its settings have them: what each has, and where it is kept.

The rule: the first has what no other names, in the node's own directory, so that one shard is the
same with and without others; each of the others has a directory below that.
"""

from collections.abc import Sequence
from dataclasses import replace

from arneb.cluster_settings import ClusterTable
from arneb.config import Config
from arneb.shard_settings import ClusterShardTable, check_shards, directory_of
from arneb_cluster.routing.division import Division


def other_shards(table: ClusterTable) -> Sequence[ClusterShardTable]:
    """Those beside the first."""
    return table.shards


def division_of(first: str, others: Sequence[ClusterShardTable]) -> Division:
    """Which shard has what. Raises :class:`ValueError` for what would be in two."""
    check_shards(first, others)
    namespaces = {space: each.name for each in others for space in each.own_namespaces}
    tenants = {tenant: each.name for each in others for tenant in each.tenants}
    return Division(first, namespaces, tenants)


def config_of(config: Config, shard: ClusterShardTable) -> Config:
    """The settings of a node as they are for the broker of a shard that is not the first."""
    cluster = replace(
        config.cluster, shard=shard.name, prefer=shard.prefer or config.cluster.prefer, shards=()
    )
    return replace(config, data_dir=directory_of(config.data_dir, shard.name), cluster=cluster)
