"""What SUBSCRIBE asks for: every type by its number, and what no type has."""

import pytest
from tests.pulsar_frontend.session.playbook import Playbook, received

from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_pulsar.session.interface.effects import AttachConsumer, Close
from arneb_pulsar.session.transitions import ConnectionState
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


def subscribe(**fields: object) -> pb.CommandSubscribe:
    values: dict[str, object] = {"topic": "t", "subscription": "s", "consumer_id": 1}
    return pb.CommandSubscribe(**(values | {"request_id": 5} | fields))


def test_types_have_the_names_and_numbers_of_pulsars_protocol() -> None:
    ours = {each.traits.title: each.traits.number for each in SubscriptionType}
    assert dict(pb.CommandSubscribe.SubType.items()).items() <= ours.items()


@pytest.mark.parametrize("kind", SubscriptionType)
def test_every_type_can_be_asked_for(kind: SubscriptionType) -> None:
    play = Playbook() >> received(subscribe(subType=kind.traits.number))
    assert play.take(AttachConsumer).type is kind


@pytest.mark.parametrize("number", [-1, len(SubscriptionType), 1000])
def test_a_type_that_does_not_exist_ends_the_connection(number: int) -> None:
    play = Playbook() >> received(subscribe(subType=number))
    assert play.heard().command.message == f"expected a subscription type, got {number}"
    play.take(Close)
    assert play.session.state is ConnectionState.CLOSED


@pytest.mark.parametrize("kind", SubscriptionType)
def test_a_shared_subscription_does_not_read_compacted(kind: SubscriptionType) -> None:
    command = subscribe(subType=kind.traits.number, read_compacted=True)
    play = Playbook() >> received(command)
    if kind.traits.sharing:
        assert play.heard().command.error == pb.NotAllowedError
        play.over()
    else:
        assert play.take(AttachConsumer).compacted
