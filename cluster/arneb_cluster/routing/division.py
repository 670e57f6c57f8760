"""Division: which shard of a cluster a namespace is in.

The rule: it is a function of the settings and of the namespace, the same on every node, so that
nothing has to be asked. A namespace that is named itself is where it is named, else it is with its
tenant, and what nobody names is in the first shard.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EVERYTHING_ELSE: Final = "*"
"""In the place of a namespace: those that no shard names."""


@dataclass(frozen=True, slots=True)
class Division:
    """The shards of a cluster, and what each of them has."""

    first: str
    """The one that has everything that no other has."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Shards of namespaces."""
    tenants: Mapping[str, str] = field(default_factory=dict)
    """Shards of the other namespaces of tenants."""

    @property
    def is_divided(self) -> bool:
        """There is more than one shard."""
        return bool(self.namespaces or self.tenants)

    @property
    def digest(self) -> str:
        """The same for settings that divide the same way; empty for one shard."""
        if not self.is_divided:
            return ""
        said = [self.first, sorted(self.namespaces.items()), sorted(self.tenants.items())]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def shard_of(self, namespace: str) -> str:
        """The shard that a namespace is in, or that stands in the place of one."""
        if namespace.startswith(EVERYTHING_ELSE):
            return namespace.removeprefix(EVERYTHING_ELSE) or self.first
        found = self.namespaces.get(namespace)
        return found or self.tenants.get(namespace.partition("/")[0], self.first)

    def misplaced(self, shard: str, namespace: str) -> str:
        """Why a namespace cannot be in that shard; empty: it is."""
        found = self.shard_of(namespace)
        return "" if found == shard else f"{namespace} is in shard '{found}', not in '{shard}'"
