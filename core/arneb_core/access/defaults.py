"""Defaults: what a vhost gets when it is created, by its name.

The rule: they apply when a vhost is created and never again: an operator's later changes stay. Of
limits the first matching pattern applies, of policies all matching ones do.

Source: ``rabbit_db_vhost_defaults.erl`` of RabbitMQ 3.13.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arneb_core.access.patterns import compiled
from arneb_core.access.records import Limits, OperatorPolicy


@dataclass(frozen=True, slots=True)
class LimitsOf:
    """Limits for vhosts whose names match."""

    pattern: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class PolicyOf:
    """An operator policy for vhosts whose names match, for queues whose names match."""

    name: str
    vhost_pattern: str
    queue_pattern: str
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VhostDefaults:
    """What the settings give to new vhosts."""

    limits: tuple[LimitsOf, ...] = ()
    policies: tuple[PolicyOf, ...] = ()

    def limits_of(self, vhost: str) -> Limits:
        """Return the limits of a new vhost of that name."""
        for each in self.limits:
            if compiled(each.pattern)(vhost):
                return dict(each.limits)
        return {}

    def policies_of(self, vhost: str) -> Iterator[OperatorPolicy]:
        """Yield the operator policies of a new vhost of that name."""
        for each in self.policies:
            if compiled(each.vhost_pattern)(vhost):
                yield OperatorPolicy(vhost, each.name, each.queue_pattern, dict(each.definition))


NO_DEFAULTS: Final = VhostDefaults()
