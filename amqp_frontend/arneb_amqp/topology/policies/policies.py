"""The policies of one vhost, and which of them applies to what.

The rule: of the policies that match a name and a type, only the one with the highest priority
applies, and likewise one operator policy. Pure: queues and exchanges act on the result.

Source: ``rabbit_policy``, RabbitMQ 3.13.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from arneb_amqp.topology.policies.keys import is_for, merged
from arneb_amqp.topology.queue_types import QueueType
from arneb_core.access.patterns import compiled
from arneb_core.access.records import OperatorPolicy, Policy
from arneb_core.access.tables import Tables

ALL: Final = "all"
QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"

APPLY_TO: Final = (ALL, QUEUES, EXCHANGES, *(each.in_policies for each in QueueType))
"""The targets of a policy."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The policies that apply to one queue or exchange."""

    policy: str | None = None
    """The name of the policy."""
    operator_policy: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    """The combined definition of both."""


NO_POLICY: Final = Applied()


class Policies:
    """The current policies of one vhost. Immutable: replaced as a whole."""

    def __init__(self, policies: Iterable[Policy], by_operators: Iterable[Policy] = ()) -> None:
        self._policies = _in_order(policies)
        self._by_operators = _in_order(by_operators)
        self._applied: dict[tuple[str | None, str | None], Applied] = {}

    def __repr__(self) -> str:
        return f"<Policies, {len(self._policies)} and {len(self._by_operators)} by operators>"

    @classmethod
    def of(cls, tables: Tables, vhost: str) -> Self:
        """Return the policies of a vhost in the access catalogue."""
        both = tables.rows(Policy), tables.rows(OperatorPolicy)
        return cls(*([each for each in rows if each.vhost == vhost] for rows in both))

    def for_queue(self, name: str, kind: QueueType) -> Applied:
        """Return what applies to that queue."""
        if not self._policies and not self._by_operators:
            return NO_POLICY
        targets = (ALL, QUEUES, kind.in_policies)
        return self._found(
            lambda each: each.applies_to(name, targets) and is_for(each.definition, kind)
        )

    def for_exchange(self, name: str) -> Applied:
        """Return what applies to that exchange."""
        if not self._policies and not self._by_operators:
            return NO_POLICY
        return self._found(lambda each: each.applies_to(name, (ALL, EXCHANGES)))

    def _found(self, applies: Callable[["_Compiled"], bool]) -> Applied:
        policy = next(filter(applies, self._policies), None)
        by_operator = next(filter(applies, self._by_operators), None)
        key = _name_of(policy), _name_of(by_operator)
        applied = self._applied.get(key)
        if applied is None:
            definition = merged(
                policy.definition if policy else {}, by_operator.definition if by_operator else {}
            )
            # One value for all that it applies to: they may be many.
            applied = self._applied[key] = Applied(*key, definition)
        return applied


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A policy whose pattern is compiled."""

    name: str
    apply_to: str
    definition: Mapping[str, Any]
    matches: Callable[[str], bool]

    def applies_to(self, name: str, targets: Collection[str]) -> bool:
        return self.apply_to in targets and self.matches(name)


def _name_of(policy: _Compiled | None) -> str | None:
    return None if policy is None else policy.name


def _in_order(policies: Iterable[Policy]) -> list[_Compiled]:
    """Return the policies in order of matching; those of equal priority by name, where RabbitMQ's
    order is undefined."""
    return [
        _Compiled(each.name, each.apply_to, each.definition, _search(each.pattern))
        for each in sorted(policies, key=lambda each: (-each.priority, each.name))
    ]


def _search(pattern: str) -> Callable[[str], bool]:
    """Return the matcher of a pattern; an empty one matches everything, unlike a permission's."""
    return compiled(pattern) if pattern else lambda name: True
