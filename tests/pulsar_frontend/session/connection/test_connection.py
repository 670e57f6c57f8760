"""A connection: handshake, keep-alive, refusals, and an end for clients that break the protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.session.playbook import Playbook, Received, base, received, sent
from tests.pulsar_frontend.wire.strategies import cuts, encode, frames, mutated

from arneb_core.api import errors as core
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.session.connection.connection import ConnectionSession
from arneb_pulsar.session.errors import SERVER_ERRORS, TEXTS, failure_of
from arneb_pulsar.session.interface.effects import Close
from arneb_pulsar.session.transitions import ACCEPTED, ConnectionState
from arneb_pulsar.wire.commands import FIELD_OF, NO_REQUEST
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand, CommandConnect

CONNECT = CommandConnect(client_version="test", protocol_version=20)


def example(number: int) -> BaseCommand:
    """A whole command of that type, all of its required fields zero or empty."""
    command = BaseCommand(type=number)
    fill(getattr(command, FIELD_OF[number]))
    return command


def fill(message: object) -> None:
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        if not field.is_required:
            continue
        if field.message_type is not None:
            fill(getattr(message, field.name))
        elif field.enum_type is not None:
            setattr(message, field.name, field.enum_type.values[0].number)
        else:
            setattr(message, field.name, field.default_value)


def test_connect_is_answered_with_the_lower_version_and_the_message_size() -> None:
    play = Playbook(connected=False) >> received(CONNECT)
    play << sent(
        pb.CommandConnected(
            server_version="Arneb test",
            protocol_version=20,
            max_message_size=5 * 1024 * 1024,
            feature_flags=pb.FeatureFlags(
                supports_topic_watchers=True,
                supports_get_partitioned_metadata_without_auto_creation=True,
            ),
        )
    )
    play.over()
    assert play.session.state is ConnectionState.OPEN
    newer = Playbook(connected=False) >> received(
        CommandConnect(client_version="new", protocol_version=99)
    )
    assert newer.heard().command.protocol_version == 21


@pytest.mark.parametrize("state", [ConnectionState.HANDSHAKE, ConnectionState.OPEN])
@pytest.mark.parametrize("number", sorted(FIELD_OF))
def test_each_command_is_handled_or_ends_the_connection(
    state: ConnectionState, number: int
) -> None:
    """Every (state, command) pair: what the table does not have closes the connection."""
    play = Playbook(connected=state is ConnectionState.OPEN)
    play >> received(getattr(example(number), FIELD_OF[number]), body=b"")
    if number in ACCEPTED[state] and number != BaseCommand.SEND:
        assert play.session.state is ConnectionState.OPEN
        return
    assert play.session.state is ConnectionState.CLOSED
    if state is ConnectionState.OPEN:
        end = play.heard().command
        assert (end.request_id, end.error) == (NO_REQUEST, pb.UnknownError)
    play.take(Close)
    play.over()


def test_a_closed_connection_says_and_asks_nothing() -> None:
    play = Playbook() >> received(CONNECT)
    play.heard()
    play.take(Close)
    play >> received(pb.CommandPing()) >> received(CONNECT)
    play.pass_time(1000)
    play.over()


def test_ping_is_answered_with_pong() -> None:
    play = Playbook() >> received(pb.CommandPing()) << sent(pb.CommandPong())
    play >> received(pb.CommandPong())
    play.over()


def test_a_silent_peer_is_asked_and_then_given_up() -> None:
    play = Playbook()
    play.pass_time(29.9).over()
    play.pass_time(0.2) << sent(pb.CommandPing())
    play.pass_time(29).over()
    play.pass_time(2)
    assert play.session.state is ConnectionState.CLOSED
    play.heard()
    play.take(Close)


def test_any_byte_is_a_sign_of_life() -> None:
    play = Playbook()
    for _ in range(5):
        play.pass_time(31) << sent(pb.CommandPing())
        play.pass_time(28).over()
        play >> Received(b"\0")


def test_silence_that_was_ours_does_not_count() -> None:
    play = Playbook()
    play.pass_time(31) << sent(pb.CommandPing())
    play.now += 100
    play.session.resumed(play.now)
    play.pass_time(29).over()
    play.pass_time(2) << sent(pb.CommandPing())


def test_a_handshake_that_takes_too_long_ends() -> None:
    play = Playbook(connected=False)
    play.pass_time(29).over()
    play.pass_time(2)
    play.take(Close)
    play.over()
    assert play.session.state is ConnectionState.CLOSED


def test_text_that_is_no_utf8_ends_the_connection() -> None:
    raw = base(pb.CommandLookupTopic(topic="abcd", request_id=1)).SerializeToString()
    broken = raw.replace(b"abcd", b"ab\xff\xfe")
    play = Playbook() >> Received(encode((broken, b"")))
    assert play.session.state is ConnectionState.CLOSED


@given(st.lists(frames(), max_size=5), st.data())
def test_damage_never_raises(sent: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = encode((base(CONNECT).SerializeToString(), b"")) + b"".join(map(encode, sent))
    session = ConnectionSession(PulsarConfig(), "Arneb test", 0.0)
    for piece in data.draw(cuts(data.draw(mutated(stream)))):
        session.receive_data(piece, 1.0, 1)
        session.data_to_send()


@given(st.binary(max_size=300))
def test_noise_never_raises(noise: bytes) -> None:
    for connected in (False, True):
        Playbook(connected=connected) >> Received(noise)


def core_errors() -> list[type[core.CoreError]]:
    found = [
        each
        for each in vars(core).values()
        if isinstance(each, type) and issubclass(each, core.CoreError)
    ]
    assert len(found) > 10
    return found


@pytest.mark.parametrize("error", core_errors())
def test_every_core_error_has_a_code(error: type[core.CoreError]) -> None:
    assert error in SERVER_ERRORS
    assert failure_of(error("why")).code == SERVER_ERRORS[error]
    if error not in TEXTS:
        assert failure_of(error("why")).text == "why"
        assert failure_of(error()).text == error.__name__


def test_pulsars_own_words_are_said() -> None:
    busy, other = core.ConsumerBusy("x"), core.SubscriptionTypeMismatch("expected shared")
    assert failure_of(busy).text == "Exclusive consumer is already connected"
    assert failure_of(other).text == "Subscription is of different type: expected shared"


def test_an_error_of_a_later_kind_has_the_code_of_its_parent() -> None:
    class DiskGone(core.StoreFailed):
        """Not in the table."""

    assert failure_of(DiskGone()).code == pb.PersistenceError
