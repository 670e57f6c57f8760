"""Who receives which entry: pure, synchronous decisions.

The rule: a dispatcher is told how many entries are at hand and answers with
shares; it reads no log, calls no sink and waits for nothing. The subscription acts
on the answer. One module a subscription type.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from arneb_core.dispatch.failover import FailoverDispatcher, by_name, first_come
from arneb_core.dispatch.receiver import UNBOUNDED, Receiver
from arneb_core.dispatch.shared import Share, SharedDispatcher
from arneb_core.interface import ConsumerSpec, SubscriptionType

__all__ = [
    "UNBOUNDED",
    "Dispatcher",
    "FailoverDispatcher",
    "Receiver",
    "Share",
    "SharedDispatcher",
    "dispatcher_for",
]


class Dispatcher(Protocol):
    """Decides who gets what of a run."""

    def add(self, receiver: Receiver) -> None: ...

    def remove(self, receiver: Receiver) -> None: ...

    @property
    def has_room(self) -> bool: ...

    @property
    def receivers(self) -> Iterable[Receiver]: ...

    def share(self, entries: int, costs: Sequence[int] | None = None) -> list[Share]: ...


def dispatcher_for(spec: ConsumerSpec, topic: str) -> Dispatcher:
    """The dispatcher of a subscription whose first consumer asks for ``spec``."""
    if spec.type is not SubscriptionType.FAILOVER:
        return SharedDispatcher()
    return FailoverDispatcher(first_come if spec.first_come else by_name(topic, spec.partition))
