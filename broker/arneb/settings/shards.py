"""The settings of one of several shards: what it holds, and which nodes should lead it.

The rule: a namespace is in one shard, on every node; settings that put one into two shards are
refused, naming both.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arneb_core.access.namespaces import proposed_namespace
from arneb_core.store.directory.directory import CONTROL_NAME

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The name of a node or a shard; names of topics and producers contain it."""

NAMESPACE: Final = re.compile(r"[A-Za-z0-9._=:-]+/[A-Za-z0-9._=:-]+")

DIRECTORY: Final = "shards"
"""The directory in the data directory that holds one directory for each shard but the first."""

BESIDE: Final = ("-election", "-members")
"""Suffixes of the topics beside a shard's log topic."""


@dataclass(frozen=True, slots=True)
class ClusterShardTable:
    """A shard beside the first one, for the virtual hosts and namespaces that it names; the same on
    all nodes."""

    name: str = ""
    """The name of the shard, its log topic, and its directory below ``shards`` in the data
    directory."""
    vhosts: tuple[str, ...] = ()
    """The shard's virtual hosts, with their namespaces. They are created when the shard is first
    led. A virtual host is never moved from another shard: if another has it, nobody leads."""
    namespaces: tuple[str, ...] = ()
    """The shard's Pulsar namespaces, as ``tenant/namespace``."""
    tenants: tuple[str, ...] = ()
    """Tenants whose namespaces are in the shard, unless another shard names them."""
    prefer: tuple[str, ...] = ()
    """Names of nodes in the order in which they should lead it; empty: as for the first shard."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or self.name.endswith(BESIDE):
            text = "letters, digits, '.', '_' and '-', 64 at the most, and no end that is"
            raise ValueError(f"name: expected {text} {' or '.join(BESIDE)}, got {self.name!r}")
        if not (self.vhosts or self.namespaces or self.tenants):
            raise ValueError(f"expected vhosts, namespaces or tenants beside name = {self.name!r}")
        if wrong := [each for each in self.namespaces if not NAMESPACE.fullmatch(each)]:
            raise ValueError(f"namespaces: expected tenant/namespace, got {wrong[0]!r}")
        if wrong := [each for each in self.tenants if not each or "/" in each]:
            raise ValueError(f"tenants: expected names of tenants, got {wrong[0]!r}")
        if "" in self.vhosts:
            raise ValueError("vhosts: expected names of virtual hosts, got ''")
        if wrong := [each for each in self.prefer if not NAME.fullmatch(each)]:
            raise ValueError(f"prefer: expected names of nodes, got {wrong[0]!r}")

    @property
    def own_namespaces(self) -> tuple[str, ...]:
        """The named namespaces, and those of the shard's virtual hosts."""
        return (*self.namespaces, *map(proposed_namespace, self.vhosts))


def directory_of(data_dir: Path, shard: str) -> Path:
    """Return the directory of a shard other than the first."""
    return data_dir / DIRECTORY / shard


def node_directory_of(directory: Path) -> Path:
    """Return the data directory of the node that has ``directory`` for one of its shards. A
    directory with a control socket is a node's own, wherever it lies."""
    whole = Path(os.path.realpath(directory))
    if whole.parent.name != DIRECTORY or (whole / CONTROL_NAME).exists():
        return directory
    return whole.parent.parent


def directories_of(data_dir: Path) -> Sequence[Path]:
    """Return the first shard's directory and the existing ones of the others."""
    others = data_dir / DIRECTORY
    return [data_dir, *(sorted(others.iterdir()) if others.is_dir() else ())]


def check_shards(first: str, others: Sequence[ClusterShardTable]) -> None:
    """Raise :class:`ValueError` if two shards share a name, a namespace or a tenant."""
    names, namespaces, tenants = {first}, dict[str, str](), dict[str, str]()
    for each in others:
        if each.name in names:
            raise ValueError(f"shards: expected another name for each, got {each.name!r} twice")
        names.add(each.name)
        for what, found, wanted in (
            ("namespace", namespaces, each.own_namespaces),
            ("tenant", tenants, each.tenants),
        ):
            for one in wanted:
                if (other := found.setdefault(one, each.name)) != each.name:
                    raise ValueError(
                        f"shards: expected {what} {one} in one shard, got it in {other!r} and in "
                        f"{each.name!r}"
                    )
