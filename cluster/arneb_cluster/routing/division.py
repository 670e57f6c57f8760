"""Division: assigns each namespace to a shard of a cluster.

The rule: the shard is a function of the settings and the namespace, the same on every node, so no
node has to ask another. A namespace is in the shard that names it, else in the shard that names its
tenant, else in the first shard.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EVERYTHING_ELSE: Final = "*"
"""In place of a namespace: everything that no shard names."""


@dataclass(frozen=True, slots=True)
class Division:
    """The shards of a cluster and their namespaces."""

    first: str
    """The shard of everything that no other shard names."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Shards by namespace."""
    tenants: Mapping[str, str] = field(default_factory=dict)
    """Shards by tenant, for their other namespaces."""

    @property
    def is_divided(self) -> bool:
        """Whether there is more than one shard."""
        return bool(self.namespaces or self.tenants)

    @property
    def digest(self) -> str:
        """A digest, equal for equal divisions; empty for one shard."""
        if not self.is_divided:
            return ""
        fields = [self.first, sorted(self.namespaces.items()), sorted(self.tenants.items())]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]

    def shard_of(self, namespace: str) -> str:
        """Return the shard of a namespace, or of what stands in place of one."""
        if namespace.startswith(EVERYTHING_ELSE):
            return namespace.removeprefix(EVERYTHING_ELSE) or self.first
        found = self.namespaces.get(namespace)
        return found or self.tenants.get(namespace.partition("/")[0], self.first)

    def misplaced(self, shard: str, namespace: str) -> str:
        """Return why a namespace is not in that shard; empty: it is."""
        found = self.shard_of(namespace)
        return "" if found == shard else f"{namespace} is in shard '{found}', not in '{shard}'"
