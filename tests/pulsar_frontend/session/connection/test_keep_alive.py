"""Keep-alive: a silent client is pinged, then closed; a pause of the broker is not its silence."""

import math

from arneb_pulsar.session.connection.keep_alive import GRACE_S, LATE_S, KeepAlive, Tick

HANDSHAKE_S = 10.0
INTERVAL_S = 30.0


def connected() -> KeepAlive:
    keep_alive = KeepAlive(0.0, HANDSHAKE_S, INTERVAL_S)
    keep_alive.connected(0.0)
    return keep_alive


def test_an_unfinished_handshake_is_abandoned_at_its_deadline() -> None:
    keep_alive = KeepAlive(0.0, HANDSHAKE_S, INTERVAL_S)
    keep_alive.heard(9.0)
    assert keep_alive.tick(9.9) is Tick.NOTHING
    assert keep_alive.deadline == HANDSHAKE_S
    assert keep_alive.tick(HANDSHAKE_S) is Tick.GIVE_UP


def test_a_silent_client_is_asked_and_given_up_an_interval_later() -> None:
    keep_alive = connected()
    assert keep_alive.tick(INTERVAL_S) is Tick.PING
    assert keep_alive.tick(2 * INTERVAL_S - 0.1) is Tick.NOTHING
    assert keep_alive.tick(2 * INTERVAL_S) is Tick.GIVE_UP


def test_any_byte_is_an_answer() -> None:
    keep_alive = connected()
    keep_alive.heard(10.0)
    assert keep_alive.tick(INTERVAL_S) is Tick.NOTHING
    assert keep_alive.deadline == 10.0 + INTERVAL_S
    assert keep_alive.tick(10.0 + INTERVAL_S) is Tick.PING
    keep_alive.heard(41.0)
    assert keep_alive.tick(10.0 + 2 * INTERVAL_S) is Tick.NOTHING
    assert keep_alive.tick(41.0 + INTERVAL_S) is Tick.PING


def test_a_client_that_cannot_answer_gets_no_ping() -> None:
    keep_alive = KeepAlive(0.0, HANDSHAKE_S, INTERVAL_S)
    keep_alive.connected(0.0, answered=False)
    assert keep_alive.deadline == math.inf


def test_a_pause_of_the_broker_does_not_count_as_the_clients_silence() -> None:
    late = 2 * INTERVAL_S + LATE_S + 0.1
    for is_heard in (True, False):
        pinged = connected()
        assert pinged.tick(INTERVAL_S) is Tick.PING
        assert pinged.tick(late) is Tick.NOTHING
        assert pinged.deadline == late + GRACE_S
        if is_heard:
            pinged.heard(late + 1)
        assert pinged.tick(late + GRACE_S) is (Tick.NOTHING if is_heard else Tick.GIVE_UP)
    shaking = KeepAlive(0.0, HANDSHAKE_S, INTERVAL_S)
    assert shaking.tick(HANDSHAKE_S + LATE_S + 0.1) is Tick.NOTHING
    assert shaking.tick(shaking.deadline) is Tick.GIVE_UP
