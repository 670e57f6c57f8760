"""Subscription types: every type has a dispatcher, and traits that do not contradict each other."""

import pytest

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.dispatch import KeySharedDispatcher, dispatcher_for


@pytest.mark.parametrize("kind", SubscriptionType)
def test_every_type_has_a_dispatcher(kind: SubscriptionType) -> None:
    made = dispatcher_for(ConsumerSpec(name="c", type=kind), "t")
    assert isinstance(made, KeySharedDispatcher) is kind.traits.by_key


@pytest.mark.parametrize("kind", SubscriptionType)
def test_cumulative_acknowledgements_need_one_consumer_at_a_time(kind: SubscriptionType) -> None:
    traits = kind.traits
    assert traits.cumulative_acks_allowed is (traits.one_consumer or traits.one_active)
    assert not (traits.one_consumer and traits.one_active)
    assert not (traits.by_key and traits.cumulative_acks_allowed)


def test_types_are_called_what_they_were_called() -> None:
    """HTTP and metrics tell the value, Pulsar's clients the title."""
    assert {each.value: each.traits.title for each in SubscriptionType} == {
        "exclusive": "Exclusive",
        "shared": "Shared",
        "failover": "Failover",
        "key_shared": "Key_Shared",
    }
