"""Membership: which consumers may attach to a subscription, and who learns which one is active.

The rule: the first consumer sets the subscription type, until the last one detaches. Source:
Pulsar ``PersistentSubscription.addConsumer`` and ``AbstractDispatcherSingleActiveConsumer``.
"""

from arneb_core.api.errors import ConsumerBusy, NotAllowed, SubscriptionTypeMismatch
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode
from arneb_core.dispatch.sticky_ranges import check_ranges
from arneb_core.subscription.consumers.returns import Returns
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.state.effects import ActiveChanged
from arneb_core.subscription.state.in_flight import InFlight
from arneb_core.subscription.state.state import SubscriptionState


def check_type(state: SubscriptionState, ready: Ready, spec: ConsumerSpec) -> None:
    """Raise the reason why a consumer with ``spec`` cannot attach now."""
    if spec.type.traits.by_key:
        if ready.is_prioritised:
            raise NotAllowed("expected a subscription without priorities for Key_Shared")
        _check_sharing(state, spec.sharing)
    elif spec.type.traits.one_consumer and spec.sharing.ranges:
        check_ranges(spec.sharing.ranges, ())
    if not state.consumers:
        return
    if spec.type is not state.type:
        present = "another type" if state.type is None else state.type.value
        raise SubscriptionTypeMismatch(
            f"expected {present} on {state.name!r}, got {spec.type.value}"
        )
    if spec.type.traits.one_consumer:
        raise ConsumerBusy(f"expected no other consumer on {state.name!r}")


def _check_sharing(state: SubscriptionState, wanted: KeySharing) -> None:
    """Raise the reason why keys cannot be shared out as ``wanted``."""
    present = [
        each.spec.sharing for each in state.consumers.values() if each.spec.type.traits.by_key
    ]
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
    state: SubscriptionState,
    delivery: Delivery,
    returns: Returns,
    before: InFlight | None,
    new: InFlight | None,
) -> None:
    """Tell failover consumers if another one than ``before`` is active now; ``new``, if any, has
    just come and must be told in any case."""
    active, kind = delivery.active, state.type
    if kind is None or not kind.traits.one_active or (active is before and new is None):
        return
    if active is not before and before is not None and not before.spec.first_come:
        returns.release(before, [*before.whole, *before.masks], count=False)
    notified = [*state.consumers.values()] if active is not before else [new]
    for each in notified:
        if each is not None:
            state.outbox.calls.append(ActiveChanged(each, each is active))
