"""Membership: who may join the consumers of a subscription, and who of them is told what.

The rule: the first consumer sets the type, and it is free again when the last one leaves. Source:
Pulsar ``PersistentSubscription.addConsumer`` and ``AbstractDispatcherSingleActiveConsumer``.
"""

from typing import TYPE_CHECKING

from arneb_core.api.callbacks import call
from arneb_core.api.consumers import ConsumerSpec
from arneb_core.api.errors import ConsumerBusy, NotAllowed, SubscriptionTypeMismatch
from arneb_core.api.key_sharing import KeySharing, KeySharingMode
from arneb_core.dispatch.sticky_ranges import check_ranges

if TYPE_CHECKING:
    from arneb_core.subscription.consumer import LogConsumer
    from arneb_core.subscription.subscription import LogSubscription


def check_type(subscription: "LogSubscription", spec: ConsumerSpec) -> None:
    """Raise the reason why a consumer with ``spec`` cannot attach now."""
    if spec.type.traits.by_key:
        _check_sharing(subscription, spec.sharing)
    if not subscription.consumers_attached:
        return
    if spec.type is not subscription.type:
        present = "another type" if subscription.type is None else subscription.type.value
        raise SubscriptionTypeMismatch(
            f"expected {present} on {subscription.name!r}, got {spec.type.value}"
        )
    if spec.type.traits.one_consumer:
        raise ConsumerBusy(f"expected no other consumer on {subscription.name!r}")


def _check_sharing(subscription: "LogSubscription", wanted: KeySharing) -> None:
    """Raise the reason why keys cannot be shared out so."""
    if subscription.is_prioritised:
        raise NotAllowed("expected a subscription without priorities for Key_Shared")
    present = [each.spec.sharing for each in subscription.consumers if each.spec.type.traits.by_key]
    for each in present[:1]:
        if each.mode is not wanted.mode:
            raise SubscriptionTypeMismatch(
                f"expected keys shared out by {each.mode.value}, got {wanted.mode.value}"
            )
        if each.in_order is not wanted.in_order:
            raise SubscriptionTypeMismatch(
                f"expected keys {'' if each.in_order else 'not '}kept in order, as with the "
                f"present consumers, got the opposite"
            )
    if wanted.mode is KeySharingMode.STICKY:
        check_ranges(wanted.ranges, [each for other in present for each in other.ranges])


def tell_active(
    subscription: "LogSubscription", before: "LogConsumer | None", new: "LogConsumer | None"
) -> None:
    """Of failover consumers another one may be active than ``before``; ``new`` has just come and
    must be told in any case."""
    active = subscription.active
    kind = subscription.type
    if kind is None or not kind.traits.one_active or (active is before and new is None):
        return
    if active is not before and before is not None and not before.spec.first_come:
        before.release_all(count=False)
    told = subscription.consumers if active is not before else [new]
    for each in told:
        if each is not None:
            call(each.sink.active_changed, each is active)
