"""What clients of each version and kind are told, and what they are spared."""

import pytest
from tests.pulsar_frontend.session.consume.test_consumers import message, pulsar_entry, subscribe
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.session.interface.effects import AddPermits, AttachConsumer
from arneb_pulsar.session.interface.events import (
    ActiveChanged,
    ConsumerAttached,
    Delivered,
    EndReached,
)
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandConnect, CommandFlow, CommandSubscribe

JAVA, CPP, GO = "Pulsar-Java-v4.0.7", "Pulsar-CPP-v4.2.0", "Pulsar Go 0.14.0"
VERSIONS = range(22)


def connected(version: int, name: str = JAVA) -> Playbook:
    play = Playbook(connected=False)
    play >> received(CommandConnect(client_version=name, protocol_version=version))
    assert play.heard().command.protocol_version == version
    return play


def attached(version: int, name: str = JAVA) -> tuple[Playbook, int]:
    """A connection with a failover consumer, and that one's key."""
    play = connected(version, name) >> received(subscribe(subType=CommandSubscribe.Failover))
    key = play.take(AttachConsumer).key
    play >> ConsumerAttached(key)
    play.heard()
    return play, key


@pytest.mark.parametrize("version", VERSIONS)
def test_a_change_of_the_active_consumer_goes_to_clients_that_know_it(version: int) -> None:
    play, key = attached(version)
    play >> received(CommandFlow(consumer_id=1, messagePermits=1)) << AddPermits(key, 1)
    play >> ActiveChanged(key, True)
    if version >= 12:
        play << sent(pb.CommandActiveConsumerChange(consumer_id=1, is_active=True))
    play.over()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [JAVA, CPP, GO, "", "4.0.7"])
def test_the_end_of_a_topic_is_for_javas_clients(version: int, name: str) -> None:
    """The C++ client closes the connection on a command that it does not know."""
    play, key = attached(version, name)
    play >> EndReached(key)
    if version >= 9 and name == JAVA:
        play << sent(pb.CommandReachedEndOfTopic(consumer_id=1))
    play.over()


@pytest.mark.parametrize("version", VERSIONS)
def test_checksums_go_to_clients_that_read_them(version: int) -> None:
    play, key = attached(version)
    whole, bare = join_body(b"metadata", b"payload"), b"\0\0\0\x08metadatapayload"
    entries = [pulsar_entry(whole), pulsar_entry(bare)]
    play >> Delivered(key, Deliveries([position_at(1, 4), position_at(1, 5)], entries))
    play << message(4, whole if version >= 11 else bare) << message(5, bare)
    play.over()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_silent_client_that_cannot_answer_is_not_asked(version: int) -> None:
    play = connected(version)
    play.pass_time(31)
    assert play.session.probe() is (version >= 1)
    if version >= 1:
        play << sent(pb.CommandPing())
    else:
        play.session.resumed(play.now)
        play.pass_time(1_000_000)
    play.over()
