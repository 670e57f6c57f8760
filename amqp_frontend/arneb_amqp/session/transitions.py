"""The states of a connection and of a channel, and every legal move between them.

The rule: what is not in a table is illegal, and nothing but :func:`next_state` and
:func:`next_channel_state` moves a state.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """The state of a connection. The values are RabbitMQ's words in error texts."""

    AWAITING_HEADER = "handshake"
    STARTING = "starting"
    """``connection.start`` is sent."""
    TUNING = "tuning"
    """``connection.tune`` is sent."""
    OPENING = "opening"
    """The limits are agreed; ``connection.open`` must come."""
    OPEN = "running"
    CLOSING = "closing"
    """``connection.close`` is sent; only its answer counts."""
    CLOSED = "closed"


class ConnectionInput(Enum):
    """What can happen to a connection."""

    HEADER = "protocol header"
    START_OK = "connection.start-ok"
    TUNE_OK = "connection.tune-ok"
    OPEN = "connection.open"
    WORK = "a method of an open connection"
    PEER_CLOSE = "connection.close"
    PEER_CLOSE_OK = "connection.close-ok"
    FAIL = "an error that the peer is told of"
    CUT = "the end of the socket"


class ChannelState(Enum):
    """The state of a channel. A channel that is not open has no object."""

    OPEN = "running"
    CLOSING = "closing"
    """``channel.close`` is sent; only its answer counts."""
    CLOSED = "closed"


class ChannelInput(Enum):
    """What can happen to a channel."""

    WORK = "a method"
    PEER_CLOSE = "channel.close"
    PEER_CLOSE_OK = "channel.close-ok"
    FAIL = "an error that the peer is told of"


class IllegalMoveError(Exception):
    """The input does not fit the state."""


_S, _I = ConnectionState, ConnectionInput

CONNECTION_MOVES: Final[Mapping[tuple[ConnectionState, ConnectionInput], ConnectionState]] = {
    (_S.AWAITING_HEADER, _I.HEADER): _S.STARTING,
    (_S.STARTING, _I.START_OK): _S.TUNING,
    (_S.TUNING, _I.TUNE_OK): _S.OPENING,
    (_S.OPENING, _I.OPEN): _S.OPEN,
    (_S.OPEN, _I.WORK): _S.OPEN,
    (_S.OPEN, _I.PEER_CLOSE): _S.CLOSED,
    # A client that has not logged in yet is told nothing but that the login failed.
    (_S.STARTING, _I.FAIL): _S.CLOSING,
    (_S.TUNING, _I.FAIL): _S.CLOSING,
    (_S.OPENING, _I.FAIL): _S.CLOSING,
    (_S.OPEN, _I.FAIL): _S.CLOSING,
    # What the peer sent before it saw our close is not its fault.
    (_S.CLOSING, _I.WORK): _S.CLOSING,
    (_S.CLOSING, _I.OPEN): _S.CLOSING,
    (_S.CLOSING, _I.PEER_CLOSE): _S.CLOSING,
    (_S.CLOSING, _I.FAIL): _S.CLOSING,
    (_S.CLOSING, _I.PEER_CLOSE_OK): _S.CLOSED,
    **{(state, _I.CUT): _S.CLOSED for state in ConnectionState},
}

_C, _CI = ChannelState, ChannelInput

CHANNEL_MOVES: Final[Mapping[tuple[ChannelState, ChannelInput], ChannelState]] = {
    (_C.OPEN, _CI.WORK): _C.OPEN,
    (_C.OPEN, _CI.PEER_CLOSE): _C.CLOSED,
    (_C.OPEN, _CI.FAIL): _C.CLOSING,
    (_C.CLOSING, _CI.WORK): _C.CLOSING,
    (_C.CLOSING, _CI.PEER_CLOSE): _C.CLOSING,
    (_C.CLOSING, _CI.FAIL): _C.CLOSING,
    (_C.CLOSING, _CI.PEER_CLOSE_OK): _C.CLOSED,
}


def next_state(state: ConnectionState, happened: ConnectionInput) -> ConnectionState:
    """Return the state after ``happened``. Raises :class:`IllegalMoveError`."""
    try:
        return CONNECTION_MOVES[state, happened]
    except KeyError:
        raise IllegalMoveError(f"{happened.value} in connection state {state.value}") from None


def next_channel_state(state: ChannelState, happened: ChannelInput) -> ChannelState:
    """Return the state after ``happened``. Raises :class:`IllegalMoveError`."""
    try:
        return CHANNEL_MOVES[state, happened]
    except KeyError:
        raise IllegalMoveError(f"{happened.value} in channel state {state.value}") from None
