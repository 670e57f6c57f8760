"""A relay: passes one client's bytes to the node that serves it, and its answers back. No I/O.

The rule: bytes are passed on unchanged, in order and with nothing in between, while the leader is
there; so heartbeats, back-pressure and errors are those of the two ends. When the leader is lost,
the client is sent an AMQP error if a frame has just ended, else by the end of its socket:
half a frame followed by something else would be read as garbage.
"""

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Final

from arneb_cluster.routing.frame_heads import END, HEAD, METHOD, CloseMethod, FrameHeads

LEADER_GONE: Final = "the node that serves this connection has ended it"

CONNECTION_FORCED: Final = 320
_CLOSE: Final = Struct(">HHHB")
_NO_METHOD: Final = b"\x00\x00\x00\x00"
TEXT_BYTES_MAX: Final = 255
"""The bound of a short string."""


def close_frame(text: str) -> bytes:
    """Return ``connection.close`` with 320 and that text."""
    raw = f"CONNECTION_FORCED - {text}".encode()[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode()
    payload = _CLOSE.pack(10, 50, CONNECTION_FORCED, len(raw)) + raw + _NO_METHOD
    return HEAD.pack(METHOD, 0, len(payload)) + payload + bytes((END,))


class Kind(Enum):
    """The kind of a relay's stream."""

    FRAMED = "framed"
    """AMQP frames: clients can be told why to reconnect."""
    PLAIN = "plain"
    """Anything else: clients reconnect when their connection ends."""


class RelayState(Enum):
    """The state of a relay."""

    CARRYING = "carrying"
    CLOSING = "closing"
    """The leader is lost, and the client has been sent a close; its answer is awaited."""
    ENDING = "ending"
    """The client gets nothing more."""


class RelayInput(Enum):
    """The inputs of a relay."""

    LOST_AT_BORDER = "the leader is lost, at a border"
    LOST_INSIDE = "the leader is lost inside a frame, or after a goodbye"
    LEADER_ENDED = "the leader says no more, after a goodbye"
    ANSWERED = "the client has answered to the close"


_S, _I = RelayState, RelayInput

MOVES: Final = {
    (_S.CARRYING, _I.LOST_AT_BORDER): _S.CLOSING,
    (_S.CARRYING, _I.LOST_INSIDE): _S.ENDING,
    (_S.CARRYING, _I.LEADER_ENDED): _S.ENDING,
    (_S.CLOSING, _I.ANSWERED): _S.ENDING,
}
"""All moves; other inputs change nothing."""


@dataclass(frozen=True, slots=True)
class ToLeader:
    """Send these bytes to the leader."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ToClient:
    """Send these bytes to the client."""

    data: bytes


@dataclass(frozen=True, slots=True)
class EndToLeader:
    """The client has ended its direction; tell the leader, which may still answer."""


@dataclass(frozen=True, slots=True)
class EndToClient:
    """End the direction to the client. ``farewell``: its last bytes are on the way; else it is
    cut."""

    farewell: bool


Effect = ToLeader | ToClient | EndToLeader | EndToClient


class Relay:
    """The relay of one client."""

    def __init__(self, kind: Kind = Kind.FRAMED) -> None:
        self._kind = kind
        self.state = RelayState.CARRYING
        self.up = FrameHeads()
        """The client's frames."""
        self.down = FrameHeads()
        """The leader's frames."""
        self.up_bytes = self.down_bytes = 0
        self._client_ended = False
        self.is_lost = False
        """Whether it ended because the leader was lost."""

    def __repr__(self) -> str:
        return f"<Relay {self.state.value}, up {self.up!r}, down {self.down!r}>"

    def from_client(self, data: bytes) -> list[Effect]:
        """Take bytes from the client."""
        if self._kind is Kind.FRAMED:
            self.up.receive(data)
        match self.state:
            case RelayState.CARRYING:
                self.up_bytes += len(data)
                return [ToLeader(data)]
            case RelayState.CLOSING if self.up.close_method is not CloseMethod.NONE:
                # A close of the client's own that crossed ours ends it as well.
                self._move(RelayInput.ANSWERED)
                return [EndToClient(farewell=True)]
        return []

    def from_leader(self, data: bytes) -> list[Effect]:
        """Take bytes from the leader."""
        if self.state is not RelayState.CARRYING:
            return []
        if self._kind is Kind.FRAMED:
            self.down.receive(data)
        self.down_bytes += len(data)
        return [ToClient(data)]

    def client_ended(self) -> list[Effect]:
        """Note the end of the client's direction. What still comes from the leader is passed on."""
        match self.state:
            case RelayState.CARRYING:
                self._client_ended = True
                return [EndToLeader()]
            case RelayState.CLOSING:
                self._move(RelayInput.ANSWERED)
                return [EndToClient(farewell=True)]
            case RelayState.ENDING:
                return []

    def leader_ended(self) -> list[Effect]:
        """Note the end of the leader's direction: after a goodbye of either side all is well, else
        the leader is lost."""
        if self.state is not RelayState.CARRYING:
            return []
        if self._has_goodbye or self._kind is Kind.PLAIN:
            self._move(RelayInput.LEADER_ENDED)
            return [EndToClient(farewell=True)]
        return self.lost(LEADER_GONE)

    def lost(self, reason: str) -> list[Effect]:
        """The leader is gone or no longer leads: ignore it from now on."""
        if self.state is not RelayState.CARRYING:
            return []
        self.is_lost = not self._has_goodbye
        if self._has_goodbye or self._kind is Kind.PLAIN or not self.down.at_border:
            self._move(RelayInput.LOST_INSIDE)
            return [EndToClient(farewell=self._has_goodbye)]
        self._move(RelayInput.LOST_AT_BORDER)
        return [ToClient(close_frame(reason))]

    @property
    def _has_goodbye(self) -> bool:
        """Whether one side has announced its end, so that the other's is expected."""
        methods = (self.down.close_method, self.up.close_method)
        return self._client_ended or any(each is not CloseMethod.NONE for each in methods)

    def _move(self, happened: RelayInput) -> None:
        self.state = MOVES.get((self.state, happened), self.state)
