"""Who a client is: CONNECT, AUTH_CHALLENGE and AUTH_RESPONSE."""

import math
from pathlib import Path

from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_pulsar.config import AuthenticationConfig, PulsarConfig
from arneb_pulsar.session.connection.authentication import ANSWER_WITHIN_S, CHECK_INTERVAL_S
from arneb_pulsar.session.interface.effects import Authenticate, Close
from arneb_pulsar.session.interface.events import Authenticated, NotAuthenticated
from arneb_pulsar.session.transitions import ConnectionState
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

CONFIG = PulsarConfig(
    authentication=AuthenticationConfig(("token",), token_secret_key=Path("secret")),
    keep_alive_s=10_000,
)


def test_no_proof_is_shown() -> None:
    assert "hush" not in repr(Authenticate("token", b"hush"))


def connecting(refreshes: bool = True, original: str = "") -> Playbook:
    play = Playbook(connected=False, config=CONFIG)
    command = pb.CommandConnect(
        client_version="test",
        protocol_version=20,
        auth_method_name="token",
        auth_data=b"proof",
        feature_flags=pb.FeatureFlags(supports_auth_refresh=refreshes),
        original_principal=original,
    )
    play >> received(command) << Authenticate("token", b"proof", original)
    play.over()
    return play


def connected(expires_in_s: float, refreshes: bool = True, original: str = "") -> Playbook:
    play = connecting(refreshes, original)
    play >> Authenticated(play.clock_ms + expires_in_s * 1000)
    assert isinstance(play.heard().command, pb.CommandConnected)
    play.over()
    return play


def test_a_client_begins_when_its_proof_holds() -> None:
    play = connected(math.inf)
    play >> received(pb.CommandPing()) << sent(pb.CommandPong())
    play.pass_time(5_000).over()


def test_a_client_whose_proof_does_not_hold_is_closed() -> None:
    play = connecting() >> NotAuthenticated("Failed to authenticate")
    text = "Failed to authenticate"
    play << sent(
        pb.CommandError(request_id=(1 << 64) - 1, error=pb.AuthenticationError, message=text)
    )
    play.take(Close)
    play.over()
    assert play.session.state is ConnectionState.CLOSED


def test_nothing_is_heard_before_the_proof_holds() -> None:
    play = connecting() >> received(pb.CommandPing())
    play.take(Close)
    assert play.session.state is ConnectionState.CLOSED
    play >> Authenticated(math.inf)
    play.over()


def test_a_slow_proof_ends_with_the_handshake() -> None:
    play = connecting().pass_time(31)
    play.take(Close)


def test_another_proof_is_asked_for_when_the_first_ends() -> None:
    play = connected(100)
    play.pass_time(99).over()
    play.pass_time(2)
    challenge = pb.AuthData(auth_data=b"PulsarAuthRefresh")
    play << sent(
        pb.CommandAuthChallenge(
            server_version="Arneb test", challenge=challenge, protocol_version=20
        )
    )
    play.over()
    response = pb.AuthData(auth_method_name="token", auth_data=b"later")
    play >> received(pb.CommandAuthResponse(response=response)) << Authenticate("token", b"later")
    play >> Authenticated(play.clock_ms + 100_000)
    play.pass_time(99).over()
    play.pass_time(2)
    assert isinstance(play.heard().command, pb.CommandAuthChallenge)
    play >> received(pb.CommandAuthResponse(response=response)) << Authenticate("token", b"later")
    play >> NotAuthenticated("no")
    assert play.heard().command.error == pb.AuthenticationError
    play.take(Close)


def test_a_client_that_does_not_answer_is_closed() -> None:
    play = connected(100).pass_time(100)
    assert isinstance(play.heard().command, pb.CommandAuthChallenge)
    play.pass_time(ANSWER_WITHIN_S - 1).over()
    play.pass_time(2)
    play.take(Close)


def test_a_client_that_cannot_answer_is_closed_at_once() -> None:
    play = connected(100, refreshes=False).pass_time(101)
    play.take(Close)


def test_a_proxy_whose_proof_ends_is_closed_without_asking_its_client() -> None:
    play = connected(100, original="client").pass_time(101)
    play.take(Close)


def test_a_proof_ends_by_the_clock_as_it_is_then() -> None:
    """It said 1970 when the client came, and was set right; or was set back, and the proof holds
    on."""
    play = connected(50 * 365 * 86_400)
    play.pass_time(CHECK_INTERVAL_S).over()
    play.clock_ms += 50 * 365 * 86_400_000
    play.pass_time(CHECK_INTERVAL_S)
    assert isinstance(play.heard().command, pb.CommandAuthChallenge)
    play = connected(100)
    play.clock_ms -= 3_600_000
    play.pass_time(101).over()
    play.pass_time(3_500).over()
    play.pass_time(100)
    assert isinstance(play.heard().command, pb.CommandAuthChallenge)


def test_an_unrequested_answer_is_ignored() -> None:
    response = pb.AuthData(auth_method_name="token", auth_data=b"later")
    play = connected(math.inf) >> received(pb.CommandAuthResponse(response=response))
    play.over()
