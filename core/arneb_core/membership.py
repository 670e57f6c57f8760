"""Membership: who may join the consumers of a subscription, and who of them is told what.

The rule: the first consumer sets the type, and it is free again when the last one leaves. Source:
Pulsar ``PersistentSubscription.addConsumer`` and ``AbstractDispatcherSingleActiveConsumer``.
"""

from typing import TYPE_CHECKING, Final

from arneb_core.callbacks import call
from arneb_core.errors import ConsumerBusy, NotAllowed, SubscriptionTypeMismatch
from arneb_core.interface import ConsumerSpec, SubscriptionType

if TYPE_CHECKING:
    from arneb_core.consumer import LogConsumer
    from arneb_core.subscription import LogSubscription

SUPPORTED_TYPES: Final = frozenset(
    {SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED, SubscriptionType.FAILOVER}
)

ONE_CONSUMER: Final = frozenset({SubscriptionType.EXCLUSIVE})


def check_type(subscription: "LogSubscription", spec: ConsumerSpec) -> None:
    """Raise the reason why a consumer with ``spec`` cannot attach now."""
    if spec.type not in SUPPORTED_TYPES:
        raise NotAllowed(f"subscription type {spec.type.value} is not supported")
    if not subscription.consumers_attached:
        return
    if spec.type is not subscription.type:
        raise SubscriptionTypeMismatch(
            f"expected the type of {subscription!r}, got {spec.type.value}"
        )
    if spec.type in ONE_CONSUMER:
        raise ConsumerBusy(f"expected no other consumer on {subscription!r}")


def tell_active(
    subscription: "LogSubscription", before: "LogConsumer | None", new: "LogConsumer | None"
) -> None:
    """Of failover consumers another one may be active than ``before``; ``new`` has just come and
    must be told in any case."""
    active = subscription.active
    if subscription.type is not SubscriptionType.FAILOVER or (active is before and new is None):
        return
    if active is not before and before is not None and not before.spec.first_come:
        before.release_all(count=False)
    told = subscription.consumers if active is not before else [new]
    for each in told:
        if each is not None:
            call(each.sink.active_changed, each is active)
