"""All pairs of state and input: whatever is not in a table is illegal, and a session survives
it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue
from tests.amqp_frontend.session.playbook import (
    Bytes,
    Playbook,
    client,
    connected,
    opened,
    sent,
    start_ok,
    started,
    tune_ok,
)

from arneb_amqp.session.transitions import (
    CHANNEL_MOVES,
    CONNECTION_MOVES,
    ChannelInput,
    ChannelState,
    ConnectionInput,
    ConnectionState,
    IllegalMoveError,
    next_channel_state,
    next_state,
)


@pytest.mark.parametrize("state", ConnectionState)
@pytest.mark.parametrize("happened", ConnectionInput)
def test_connection_moves(state: ConnectionState, happened: ConnectionInput) -> None:
    if (state, happened) in CONNECTION_MOVES:
        assert next_state(state, happened) is CONNECTION_MOVES[state, happened]
    else:
        with pytest.raises(IllegalMoveError, match=state.value):
            next_state(state, happened)


@pytest.mark.parametrize("state", ChannelState)
@pytest.mark.parametrize("happened", ChannelInput)
def test_channel_moves(state: ChannelState, happened: ChannelInput) -> None:
    if (state, happened) in CHANNEL_MOVES:
        assert next_channel_state(state, happened) is CHANNEL_MOVES[state, happened]
    else:
        with pytest.raises(IllegalMoveError, match=state.value):
            next_channel_state(state, happened)


def test_every_connection_state_can_be_reached_and_left() -> None:
    reached = {ConnectionState.AWAITING_HEADER, *CONNECTION_MOVES.values()}
    assert reached == set(ConnectionState)
    assert {state for state, _ in CONNECTION_MOVES} == set(ConnectionState)


def closing() -> Playbook:
    play = connected() >> client(Queue.Declare, 7)
    return play << sent(Connection.Close, 0, reply_code=504)


def closed() -> Playbook:
    return connected() >> client(Connection.Close, 0, reply_code=200, class_id=0, method_id=0)


STATES: dict[ConnectionState, Any] = {
    ConnectionState.AWAITING_HEADER: Playbook,
    ConnectionState.STARTING: lambda: started(Playbook()),
    ConnectionState.TUNING: lambda: started(Playbook()) >> start_ok(),
    ConnectionState.OPENING: lambda: started(Playbook()) >> start_ok() >> tune_ok(),
    ConnectionState.OPEN: connected,
    ConnectionState.CLOSING: closing,
    ConnectionState.CLOSED: closed,
}

INPUTS = {
    "start-ok": start_ok(),
    "tune-ok": tune_ok(),
    "open": client(Connection.Open, 0),
    "close": client(Connection.Close, 0, reply_code=200, class_id=0, method_id=0),
    "close-ok": client(Connection.CloseOk, 0),
    "update-secret": client(Connection.UpdateSecret, 0, new_secret=b"x", reason="r"),
    "secure-ok": client(Connection.SecureOk, 0, response=b"x"),
    "blocked": client(Connection.Blocked, 0, reason="r"),
    "channel.open": client(Channel.Open, 1),
    "channel.close": client(Channel.Close, 1, reply_code=200, class_id=0, method_id=0),
    "declare": client(Queue.Declare, 1, queue="q"),
    "ack": client(Basic.Ack, 1, delivery_tag=1),
    "exchange.declare on 0": client(Exchange.Declare, 0, exchange="x"),
    "heartbeat": Bytes(b"\x08\x00\x00\x00\x00\x00\x00\xce"),
    "noise": Bytes(b"\x05\x00\x00\x00\x00\x00\x00\xce"),
    "header": Bytes(b"AMQP\x00\x00\x09\x01"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", INPUTS)
def test_every_input_leads_from_every_state_to_a_state_of_the_table(
    state: ConnectionState, name: str
) -> None:
    play = STATES[state]()
    assert play.session.state is state
    play >> INPUTS[name]
    after = play.session.state
    legal = {end for (start, _), end in CONNECTION_MOVES.items() if start is state} | {state}
    # After an error of the client the state changes by FAIL, and not again before the client
    # answers.
    assert after in legal


@given(st.lists(st.sampled_from(sorted(INPUTS)), max_size=12))
def test_any_sequence_of_inputs_is_survived(names: list[str]) -> None:
    play = opened()
    for name in names:
        play >> INPUTS[name]
    assert play.session.state in ConnectionState
