"""The handshake, step by step, and every way in which it fails."""

import pytest
from pamqp.commands import Channel, Connection, Queue
from tests.amqp_frontend.session.playbook import (
    NOW,
    Bytes,
    Playbook,
    Tick,
    client,
    connected,
    make,
    opened,
    sent,
    start_ok,
    started,
    tune_ok,
)

from arneb_amqp.session.context import Entered
from arneb_amqp.session.effects import Disconnect, EndConnection
from arneb_amqp.session.events import RequestDone, Shutdown
from arneb_amqp.session.rights import Rights
from arneb_amqp.session.transitions import ConnectionState
from arneb_amqp.wire.constants import CHANNEL_ZERO, PROTOCOL_HEADER
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.tables import Field, FieldType, encode_table, long, longstr

VOID = Field(FieldType.VOID, None)


def amqplain(user: str, password: str) -> bytes:
    return encode_table({"LOGIN": longstr(user), "PASSWORD": longstr(password)})


def test_a_connection_opens() -> None:
    with Playbook() as play:
        play >> Bytes(PROTOCOL_HEADER[:3])
        play >> Bytes(PROTOCOL_HEADER[3:])
        start = play.frame(Connection.Start, 0)
        assert (start.mechanisms, start.locales) == (b"PLAIN AMQPLAIN", b"en_US")
        assert start.server_properties["product"].text == "RabbitMQ"
        play >> start_ok()
        play << sent(Connection.Tune, 0, channel_max=2047, frame_max=131_072, heartbeat=60)
        play >> tune_ok() >> client(Connection.Open, 0) << sent(Connection.OpenOk, 0)
        assert play.session.state is ConnectionState.OPEN


def test_amqplain_opens_too() -> None:
    with started(Playbook()) as play:
        play >> start_ok("AMQPLAIN", amqplain("guest", "guest")) << sent(Connection.Tune, 0)


def test_amqplain_takes_octets_for_texts() -> None:
    words = {name: Field(FieldType.BINARY, b"guest") for name in ("LOGIN", "PASSWORD")}
    with started(Playbook()) as play:
        play >> start_ok("AMQPLAIN", encode_table(words)) << sent(Connection.Tune, 0)


def test_a_client_of_another_protocol_receives_our_protocol_header() -> None:
    """4.2.2: the server answers with the protocol header that it knows and closes."""
    with Playbook() as play:
        play >> Bytes(b"GET / HT")
        assert play.raw == PROTOCOL_HEADER
        play.effect(Disconnect)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0wrong"),
        ("PLAIN", b"\0nobody\0guest"),
        ("AMQPLAIN", amqplain("guest", "wrong")),
        ("AMQPLAIN", encode_table({"LOGIN": longstr("guest"), "PASSWORD": long(5)})),
        ("AMQPLAIN", encode_table({"LOGIN": VOID, "PASSWORD": longstr("guest")})),
    ],
)
def test_a_failed_login_is_reported_to_clients_that_understand_it(
    mechanism: str, response: bytes
) -> None:
    words = (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )
    with started(Playbook()) as play:
        play >> start_ok(mechanism, response)
        play << sent(Connection.Close, 0, reply_code=403, reply_text=words, class_id=0, method_id=0)
        play << EndConnection()
        play >> RequestDone() >> client(Connection.CloseOk, 0)
        play.effect(Disconnect)


@pytest.mark.parametrize(
    "answer",
    [
        start_ok("PLAIN", b"\0guest\0wrong", client_properties={}),
        start_ok("PLAIN", b"guest\0guest"),
        start_ok("PLAIN", b"\0guest"),
        start_ok("AMQPLAIN", b"rubbish"),
        start_ok("AMQPLAIN", b""),
        start_ok("KERBEROS", b""),
    ],
)
def test_a_client_that_has_not_logged_in_receives_nothing_else(answer: object) -> None:
    with started(Playbook()) as play:
        play >> answer
        assert play.session.blocked, "the client is not read any more"
        play >> tune_ok() >> Tick(NOW + 2.9)
        play >> Tick(NOW + 3)
        assert play.effect(Disconnect).reset


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (
            {"frame_max": 100},
            "negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
        ),
        (
            {"frame_max": 200_000},
            "negotiated frame_max = 200000 is higher than the maximum allowed value (131072)",
        ),
        (
            {"frame_max": 0},
            "negotiated frame_max = 0 is higher than the maximum allowed value (131072)",
        ),
        (
            {"channel_max": 5000},
            "negotiated channel_max = 5000 is higher than the maximum allowed value (2047)",
        ),
        (
            {"channel_max": 0},
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
    ],
)
def test_limits_outside_the_offer_are_refused(limits: dict[str, int], text: str) -> None:
    with started(Playbook()) as play:
        play >> start_ok() << sent(Connection.Tune, 0)
        play >> tune_ok(**limits)
        play << sent(Connection.Close, 0, reply_code=530, reply_text=f"NOT_ALLOWED - {text}")
        play << EndConnection()


def test_an_unknown_vhost_is_refused() -> None:
    with started(Playbook()) as play:
        play >> start_ok() << sent(Connection.Tune, 0)
        play >> tune_ok() >> client(Connection.Open, 0, virtual_host="nope")
        text = "NOT_ALLOWED - vhost nope not found"
        play << sent(Connection.Close, 0, reply_code=530, reply_text=text) << EndConnection()


def test_a_handshake_may_not_take_forever() -> None:
    with started(Playbook()) as play:
        assert play.session.next_timer() == NOW + 10
        play >> Tick(NOW + 9)
        play >> Tick(NOW + 10)
        play.effect(Disconnect)


def test_more_channels_than_agreed_are_refused() -> None:
    with connected(channel_max=2) as play:
        opened(play, 1)
        opened(play, 2)
        play >> client(Channel.Open, 3)
        text = (
            "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
        )
        play << sent(Connection.Close, 0, reply_code=530, reply_text=text, class_id=0, method_id=0)
        play << EndConnection()


def test_channels_come_after_the_virtual_host() -> None:
    with started(Playbook()) as play:
        play >> start_ok() << sent(Connection.Tune, 0) >> tune_ok() >> client(Channel.Open, 1)
        text = "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,1,48>>"
        play << sent(Connection.Close, 0, reply_code=505, reply_text=text, class_id=0, method_id=0)
        play << EndConnection()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (client(Queue.Declare, 3), "CHANNEL_ERROR - expected 'channel.open'"),
        (client(Channel.Open, 1), "CHANNEL_ERROR - second 'channel.open' seen"),
        (
            client(Connection.StartOk, 0, client_properties={}, mechanism="", response=b""),
            "CHANNEL_ERROR - unexpected method in connection state running",
        ),
    ],
)
def test_misplaced_methods_close_the_connection(command: object, text: str) -> None:
    with opened() as play:
        play >> command
        play << sent(Connection.Close, 0, reply_code=504, reply_text=text) << EndConnection()


def test_heartbeats_are_sent_and_missed() -> None:
    with connected(heartbeat=10) as play:
        before = play.raw
        play >> Tick(NOW + 5)
        assert play.raw[len(before) :] == b"\x08\x00\x00\x00\x00\x00\x00\xce"
        assert play.session.next_timer() == NOW + 10
        play >> Tick(NOW + 20)
        assert play.effect(Disconnect) == Disconnect("missed heartbeats from client", is_late=True)


def test_a_client_closes_and_nothing_is_left_behind() -> None:
    with connected() as play:
        play >> client(Connection.Close, 0, reply_code=200, class_id=0, method_id=0)
        play << EndConnection()
        play >> RequestDone() << sent(Connection.CloseOk, 0)
        assert play.effect(Disconnect).peer_first


def test_a_stop_is_announced_and_waits_only_so_long_for_the_answer() -> None:
    with connected() as play:
        play >> Shutdown()
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        play << sent(Connection.Close, 0, reply_code=320, reply_text=text) << EndConnection()
        play >> RequestDone() >> Tick(NOW + 4)
        play >> Tick(NOW + 5)
        assert not play.effect(Disconnect).peer_first


def test_both_sides_may_close_at_once() -> None:
    with connected() as play:
        play >> Shutdown() << sent(Connection.Close, 0) << EndConnection()
        play >> RequestDone()
        play >> client(Connection.Close, 0, reply_code=200, class_id=0, method_id=0)
        play << sent(Connection.CloseOk, 0)
        play >> client(Connection.CloseOk, 0)
        play.effect(Disconnect)


def test_broken_framing_is_reported_and_ends_the_connection_at_once() -> None:
    with connected() as play:
        play >> Bytes(b"\x01\x00\x00\x00\x00\x00\x04ABCDX")
        play << sent(Connection.Close, 0, reply_code=501) << EndConnection()
        play.effect(Disconnect)


def test_update_secret_is_answered() -> None:
    with connected() as play:
        play >> client(Connection.UpdateSecret, 0, new_secret=b"x", reason="r")
        play << sent(Connection.UpdateSecretOk, 0)


def test_a_secret_that_is_refused_closes_the_connection() -> None:
    with connected() as play:
        play >> client(Connection.UpdateSecret, 0, new_secret=b"wrong", reason="r")
        play << sent(Connection.Close, 0, reply_code=530, class_id=10, method_id=70)
        play << EndConnection()


def test_an_answer_after_the_end_of_a_connection_opens_nothing() -> None:
    with started(Playbook()) as play:
        play >> start_ok() << sent(Connection.Tune, 0) >> tune_ok()
        session = play.session
        session.receive_data(
            encode_method(CHANNEL_ZERO, make(Connection.Open)), play.now, play.later_ms
        )
        (enter,) = session.take_effects()
        play >> Shutdown("user 'guest' is deleted")
        text = "CONNECTION_FORCED - user 'guest' is deleted"
        play << sent(Connection.Close, 0, reply_code=320, reply_text=text) << EndConnection()
        play >> RequestDone(Entered(play.vhost, Rights(enter.principal, "/")))  # type: ignore[union-attr]
        assert session.vhost is None
