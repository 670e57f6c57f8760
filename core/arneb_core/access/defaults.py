"""Defaults: what a vhost has from its beginning, by its name.

The rule: they count when a vhost is made, and never again: what an operator changes of it later
stays changed. Of limits those count whose pattern is the first to match, of policies all that do.

Source: ``rabbit_db_vhost_defaults.erl`` of RabbitMQ 3.13.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arneb_core.access.patterns import compiled
from arneb_core.access.records import Limits, OperatorPolicy


@dataclass(frozen=True, slots=True)
class LimitsOf:
    """Limits of the vhosts whose names match."""

    pattern: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class PolicyOf:
    """An operator policy of the vhosts whose names match, for the queues whose names match."""

    name: str
    vhost_pattern: str
    queue_pattern: str
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VhostDefaults:
    """What the settings say of vhosts that are made."""

    limits: tuple[LimitsOf, ...] = ()
    policies: tuple[PolicyOf, ...] = ()

    def limits_of(self, vhost: str) -> Limits:
        """The limits of a vhost of that name."""
        for each in self.limits:
            if compiled(each.pattern)(vhost):
                return dict(each.limits)
        return {}

    def policies_of(self, vhost: str) -> Iterator[OperatorPolicy]:
        """The operator policies of a vhost of that name."""
        for each in self.policies:
            if compiled(each.vhost_pattern)(vhost):
                yield OperatorPolicy(vhost, each.name, each.queue_pattern, dict(each.definition))


NO_DEFAULTS: Final = VhostDefaults()
