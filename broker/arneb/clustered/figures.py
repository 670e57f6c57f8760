"""Figures of a shard: metrics of this node's part in it, whether it leads or not."""

from typing import Final

from arneb.metrics.text import Metric, labelled
from arneb_cluster.shard import Shard

PREFIX: Final = "arneb_cluster_"

FIGURES: Final = (
    Metric("leads", "1 while this node leads the shard"),
    Metric("serves", "1 while this node leads and its lease lasts"),
    Metric("epoch", "Epoch of the last leadership that is known here"),
    Metric("number", "Number of the last record that is in the directory"),
)
"""Each has the name of a field of ``ShardStatistics``."""


def shard_figures(shard: Shard) -> str:
    """All of them, in Prometheus' text format."""
    found = shard.statistics()
    labels = labelled(shard=found.shard, node=found.node)
    return "".join(
        f"{each.head(PREFIX)}{PREFIX}{each.name}{labels} {int(getattr(found, each.name))}\n"
        for each in FIGURES
    )
