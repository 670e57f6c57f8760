"""A relay: a Hypothesis machine over everything that can happen to one client, in any order."""

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pamqp import commands, frame
from tests.cluster.routing.test_frame_heads import CLOSE, CLOSE_OK, cut, frames

from arneb_cluster.routing.relay import (
    Effect,
    EndToClient,
    EndToLeader,
    Relay,
    RelayState,
    ToClient,
    ToLeader,
    close_frame,
)

REASON = "another node serves this virtual host now"


def test_the_close_is_a_frame_that_clients_can_read() -> None:
    read, channel, method = frame.unmarshal(close_frame(REASON))
    assert (read, channel) == (len(close_frame(REASON)), 0)
    assert isinstance(method, commands.Connection.Close)
    assert (method.reply_code, method.reply_text) == (320, f"CONNECTION_FORCED - {REASON}")
    assert (method.class_id, method.method_id) == (0, 0)


def test_a_long_reason_is_cut_between_characters() -> None:
    _, _, method = frame.unmarshal(close_frame("ü" * 300))
    assert isinstance(method, commands.Connection.Close)
    assert method.reply_text == "CONNECTION_FORCED - " + "ü" * 117


class Relayed(RuleBasedStateMachine):
    """The relay between two ends that do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.relay = Relay()
        self.sent = self.heard = b""  # by the client
        self.to_leader = b""
        self.from_leader = b""
        self.leader_done = self.leader_gone = self.client_done = False
        self.leader_told_end = False
        self.end: EndToClient | None = None
        self.pending_down = self.pending_up = b""

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case ToLeader(data):
                    assert not self.leader_gone, "something was sent to a leader that is lost"
                    self.to_leader += data
                case ToClient(data):
                    assert self.end is None, "something was sent after the end"
                    self.heard += data
                case EndToLeader():
                    assert not self.leader_told_end
                    self.leader_told_end = True
                case EndToClient():
                    assert self.end is None, "it ended twice"
                    self.end = effect

    @precondition(lambda self: not self.client_done)
    @rule(sent=st.lists(frames(), max_size=3), close=st.sampled_from([b"", b"", CLOSE, CLOSE_OK]),
          at=st.lists(st.integers(0, 200), max_size=4))  # fmt: skip
    def client_says(self, sent: list[bytes], close: bytes, at: list[int]) -> None:
        for piece in cut(b"".join(sent) + close, at):
            if piece and self.end is None:
                was = self.relay.state
                self.carry_out(self.relay.from_client(piece))
                if was is RelayState.CARRYING:
                    self.sent += piece

    @precondition(lambda self: not (self.leader_done or self.leader_gone))
    @rule(sent=st.lists(frames(), max_size=3), close=st.sampled_from([b"", b"", CLOSE, CLOSE_OK]),
          held=st.integers(0, 30))  # fmt: skip
    def leader_says(self, sent: list[bytes], close: bytes, held: int) -> None:
        data = self.pending_down + b"".join(sent) + close
        self.pending_down = data[len(data) - min(held, len(data)) :]
        data = data[: len(data) - len(self.pending_down)]
        if data:
            self.from_leader += data
            self.carry_out(self.relay.from_leader(data))

    @precondition(lambda self: not self.client_done)
    @rule()
    def client_ends(self) -> None:
        self.client_done = True
        self.carry_out(self.relay.client_ended())

    @precondition(lambda self: not (self.leader_done or self.leader_gone))
    @rule()
    def leader_ends(self) -> None:
        self.leader_done = True
        before = self.heard
        state = self.relay.state
        self.carry_out(self.relay.leader_ended())
        if state is RelayState.CARRYING:
            self.check_loss(before)

    @precondition(lambda self: not self.leader_gone)
    @rule()
    def leader_is_lost(self) -> None:
        self.leader_gone = True
        before, state = self.heard, self.relay.state
        self.carry_out(self.relay.lost(REASON))
        if state is RelayState.CARRYING:
            self.check_loss(before)

    @rule()
    def nothing_happens(self) -> None:
        """When everything is done, nothing more happens."""

    def check_loss(self, before: bytes) -> None:
        """What became of the client when its leader went."""
        goodbyes = CLOSE in before or CLOSE_OK in before or self.said_goodbye or self.client_done
        added = self.heard[len(before) :]
        if goodbyes:
            assert (added, self.end) == (b"", EndToClient(farewell=True))
        elif is_whole(before):
            assert added.startswith(b"\x01\x00\x00"), "a client is told between two frames"
            assert self.relay.state is RelayState.CLOSING
            assert self.end is None
        else:
            assert (added, self.end) == (b"", EndToClient(farewell=False)), (
                "inside a frame the connection is just cut"
            )

    @property
    def said_goodbye(self) -> bool:
        return CLOSE in self.sent or CLOSE_OK in self.sent

    @invariant()
    def bytes_go_through_as_they_came(self) -> None:
        assert self.to_leader == self.sent
        assert self.heard[: len(self.from_leader)] == self.from_leader[: len(self.heard)]
        assert self.relay.up_bytes == len(self.sent)

    @invariant()
    def what_was_ended_stays_so(self) -> None:
        if self.end is not None:
            assert self.relay.state is RelayState.ENDING
        if self.relay.state is RelayState.CARRYING:
            assert not self.leader_gone
            assert self.heard == self.from_leader


def is_whole(data: bytes) -> bool:
    """Whether ``data`` ends where a frame does, according to another reader than ours."""
    while data:
        if len(data) < 8:
            return False
        size = int.from_bytes(data[3:7]) + 8
        if len(data) < size:
            return False
        data = data[size:]
    return True


TestRelayed = Relayed.TestCase
