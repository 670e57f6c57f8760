"""Who receives which entry: pure, synchronous decisions.

The rule: a dispatcher is given the number of ready entries and returns shares; it reads no log,
delivers nothing and waits for nothing. The subscription carries out its decisions. There is one
module for each way of dividing entries.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.key_sharing import KeySharingMode
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.dispatch.auto_split import AutoSplitSelector
from arneb_core.dispatch.consistent_hashing import ConsistentHashingSelector
from arneb_core.dispatch.failover import FailoverDispatcher, by_name, first_come
from arneb_core.dispatch.key_shared import KeySharedDispatcher
from arneb_core.dispatch.receiver import UNBOUNDED, Receiver
from arneb_core.dispatch.selector import Selector
from arneb_core.dispatch.shared import Share, SharedDispatcher
from arneb_core.dispatch.sticky_ranges import StickyRangesSelector

__all__ = [
    "SELECTORS",
    "UNBOUNDED",
    "Dispatcher",
    "FailoverDispatcher",
    "KeySharedDispatcher",
    "Members",
    "Receiver",
    "Share",
    "SharedDispatcher",
    "dispatcher_for",
]


SELECTORS: Final[dict[KeySharingMode, type[Selector]]] = {
    KeySharingMode.HASH_RANGES: AutoSplitSelector,
    KeySharingMode.CONSISTENT_HASHING: ConsistentHashingSelector,
    KeySharingMode.STICKY: StickyRangesSelector,
}


class Members(Protocol):
    """The receivers that take part."""

    def add(self, receiver: Receiver) -> None: ...

    def remove(self, receiver: Receiver) -> None: ...

    @property
    def has_room(self) -> bool: ...

    @property
    def receivers(self) -> Iterable[Receiver]: ...


class Dispatcher(Members, Protocol):
    """Divides a run among receivers without looking at its entries."""

    def share(self, entries: int, costs: Sequence[int] | None = None) -> list[Share]: ...


def dispatcher_for(spec: ConsumerSpec, topic: str) -> Dispatcher | KeySharedDispatcher:
    """Make the dispatcher of a subscription whose first consumer asks for ``spec``."""
    return DISPATCHERS[spec.type](spec, topic)


def _shared(spec: ConsumerSpec, topic: str) -> SharedDispatcher:
    return SharedDispatcher()


def _failover(spec: ConsumerSpec, topic: str) -> FailoverDispatcher:
    return FailoverDispatcher(first_come if spec.first_come else by_name(topic, spec.partition))


def _key_shared(spec: ConsumerSpec, topic: str) -> KeySharedDispatcher:
    sharing = spec.sharing
    selector = SELECTORS[sharing.mode]()
    return KeySharedDispatcher(selector, in_order=sharing.in_order, look_ahead=sharing.look_ahead)


DISPATCHERS: Final[
    dict[SubscriptionType, Callable[[ConsumerSpec, str], Dispatcher | KeySharedDispatcher]]
] = {
    SubscriptionType.EXCLUSIVE: _shared,
    SubscriptionType.SHARED: _shared,
    SubscriptionType.FAILOVER: _failover,
    SubscriptionType.KEY_SHARED: _key_shared,
}
"""Make a dispatcher, given what the first consumer asks for and the topic's name."""
