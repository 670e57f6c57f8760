"""A node as one machine: what it asks for, and which answers come too late."""

import pytest
from tests.cluster.protocol.kit import BYTES_MAX, EMPTY, SHARD, Epoch, at, take_bytes

from arneb_cluster.protocol import entries
from arneb_cluster.protocol import node as node_module
from arneb_cluster.protocol.entries import Kind, Record, parse_entry
from arneb_cluster.protocol.leadership import Act, State
from arneb_cluster.protocol.lease import GONE_S, HEARTBEAT_S, LEASE_S, MARGIN_S, SILENCE_S
from arneb_cluster.protocol.node import HISTORY_S, UNREAD_S, Apply, Effect, Node
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied, Take
from arneb_cluster.protocol.window import Send, SendError


class Shell:
    """Carries out nothing: tests give the outcome."""

    def __init__(self) -> None:
        self.node = Node(SHARD, "n1", EMPTY, 0.0, {"amqp": "n1:5672"})
        self.node.active(True)

    def effects(self) -> list[Effect]:
        made, self.node.effects = self.node.effects, []
        return made

    def send(self) -> Send:
        (effect,) = self.effects()
        assert isinstance(effect, Send)
        return effect

    def take(self) -> bytes:
        self.node.tick(SILENCE_S, 0)
        self.node.probed(NOWHERE, SILENCE_S)
        self.effects()
        self.node.fenced(1, BYTES_MAX, "nonce", SILENCE_S)
        return self.send().data

    def lead(self) -> None:
        self.node.read(at(0), self.take(), SILENCE_S)
        self.node.opened()
        assert self.effects() == [Act.OPEN, Act.SERVE]


def test_the_take_is_sent_until_it_is_read_and_then_no_more() -> None:
    shell = Shell()
    data = shell.take()
    entry = parse_entry(data)
    assert isinstance(entry, Take)
    assert (entry.node, entry.epoch, entry.addresses) == ("n1", 1, {"amqp": "n1:5672"})
    shell.node.detached()
    shell.node.attached(4.0)
    assert shell.send().data == data
    shell.node.receipt(0, at(0), 4.0)
    assert shell.node.state is State.TAKING
    shell.node.read(at(0), data, 4.0)
    assert (shell.node.state, shell.effects()) == (State.OPENING, [Act.OPEN])
    shell.node.detached()
    shell.node.attached(5.0)
    assert shell.effects() == []


def test_a_leader_that_is_never_idle_still_repeats_its_history() -> None:
    shell = Shell()
    shell.lead()
    now, kinds = SILENCE_S, []
    while now < SILENCE_S + 2 * HISTORY_S + 1:
        now += 0.5
        shell.node.commit(b"x", 0, lambda: None, now)
        shell.node.tick(now, 0)
        for each in shell.effects():
            if isinstance(each, Send):
                record = parse_entry(each.data)
                assert isinstance(record, Record)
                kinds.append(record.kind)
                shell.node.receipt(each.sequence, at(each.sequence), now)
                shell.node.read(at(each.sequence), each.data, now)
        shell.effects()
        shell.node.commit(b"x", 0, lambda: None, now)
    assert kinds.count(Kind.HEARTBEAT) == 2


def test_an_idle_leader_sends_a_heartbeat_each_second() -> None:
    shell = Shell()
    shell.lead()
    shell.node.tick(3.0, 0)
    first = shell.send()
    assert first.sequence == 1
    shell.node.tick(9.0, 0)
    assert shell.effects() == []
    shell.node.receipt(1, at(1), 9.1)
    shell.node.read(at(1), first.data, 9.1)
    assert [type(each) for each in shell.effects()] == [Apply]
    shell.node.tick(9.1, 0)
    assert shell.send().sequence == 2
    shell.node.receipt(2, at(2), 9.2)
    shell.effects()
    shell.node.tick(9.1 + HEARTBEAT_S - 0.01, 0)
    assert shell.effects() == []


def test_a_commit_is_applied_and_then_reported() -> None:
    shell = Shell()
    shell.lead()
    confirmed: list[str] = []
    assert shell.node.commit(b"body", 50, lambda: confirmed.append("a"), 4.0)
    sent = shell.send()
    shell.node.receipt(1, at(1), 4.1)
    shell.node.read(at(1), sent.data, 4.1)
    (effect,) = shell.effects()
    assert isinstance(effect, Apply)
    assert (effect.commit.body, effect.commit.applied.link.number) == (b"body", 1)
    assert confirmed == []
    assert effect.ended is not None
    effect.ended()
    assert confirmed == ["a"]
    assert shell.node.serves(5.9)
    assert not shell.node.serves(6.1)


def test_a_record_with_a_receipt_is_reported_once_everything_up_to_it_is_read() -> None:
    shell = Shell()
    shell.lead()
    for body in (b"a", b"b"):
        assert shell.node.commit(body, 50, lambda: None, 4.0)
    first, second = (each.data for each in shell.effects() if isinstance(each, Send))
    shell.node.receipt(1, at(1), 4.1)
    assert shell.effects() == []
    assert not shell.node.serves(4.1), "a lease is renewed by what is read"
    shell.node.read(at(1), first, 4.2)
    shell.node.read(at(2), second, 4.2)
    assert [each.commit.body for each in applied(shell)] == [b"a"]
    assert shell.node.serves(5.9)
    assert not shell.node.serves(6.05), "the lease counts from when the record was sent"
    shell.node.receipt(2, at(2), 4.3)
    assert [each.commit.body for each in applied(shell)] == [b"b"]


def test_nothing_with_a_receipt_after_another_leaders_take_is_reported() -> None:
    shell = Shell()
    shell.lead()
    for body in (b"a", b"b"):
        assert shell.node.commit(body, 50, lambda: None, 4.0)
    first, second = (each.data for each in shell.effects() if isinstance(each, Send))
    shell.node.receipt(1, at(1), 4.1)
    shell.node.receipt(2, at(3), 4.1)
    shell.node.read(at(1), first, 4.2)
    assert [each.commit.body for each in applied(shell)] == [b"a"]
    shell.node.read(at(2), take_bytes(2, "n2"), 4.3)
    shell.node.read(at(3), second, 4.3)
    assert shell.effects() == [Act.CLOSE]
    assert "node n2 has taken epoch 2" in shell.node.leadership.why
    assert not shell.node.serves(4.3)


@pytest.mark.parametrize("entry", [take_bytes(1, "n2"), b"garbage", take_bytes(9, history="x")])
def test_a_leader_ignores_entries_that_are_no_take_of_a_higher_epoch(entry: bytes) -> None:
    shell = Shell()
    shell.lead()
    assert shell.node.commit(b"a", 50, lambda: None, 4.0)
    (data,) = (each.data for each in shell.effects() if isinstance(each, Send))
    shell.node.receipt(1, at(2), 4.1)
    shell.node.read(at(1), entry, 4.2)
    assert shell.effects() == []
    shell.node.read(at(2), data, 4.2)
    assert len(applied(shell)) == 1


def test_a_leader_that_cannot_read_what_it_has_stored_gives_up() -> None:
    shell = Shell()
    shell.lead()
    assert shell.node.commit(b"a", 50, lambda: None, 4.0)
    shell.effects()
    shell.node.receipt(1, at(1), 4.0)
    shell.node.tick(4.0 + UNREAD_S - 0.1, 0)
    assert Act.CLOSE not in shell.effects()
    shell.node.tick(4.0 + UNREAD_S, 0)
    assert Act.CLOSE in shell.effects()


def test_nothing_of_one_leadership_is_reported_in_the_next() -> None:
    shell = Shell()
    shell.lead()
    assert shell.node.commit(b"a", 50, lambda: None, 4.0)
    shell.effects()
    shell.node.receipt(1, at(5), 4.0)
    shell.node.gave_up("fenced", 4.1)
    assert shell.effects() == [Act.CLOSE]
    shell.node.closed(EMPTY, 4.2)
    shell.node.tick(9.0, 0)
    shell.node.probed(NOWHERE, 9.0)
    shell.effects()
    shell.node.fenced(2, BYTES_MAX, "another", 9.0)
    shell.node.read(at(6), shell.send().data, 9.0)
    shell.node.opened()
    shell.node.read(at(7), b"garbage", 9.0)
    assert applied(shell) == []


def applied(shell: Shell) -> list[Apply]:
    """What is to be applied now."""
    return [each for each in shell.effects() if isinstance(each, Apply)]


def test_nothing_is_accepted_once_the_epoch_has_ended() -> None:
    shell = Shell()
    shell.lead()
    shell.node.refused(1, SendError.OTHER, "no bookies", 4.0)
    assert shell.effects() == [Act.CLOSE]
    assert not shell.node.commit(b"body", 50, lambda: None, 4.0)
    assert shell.effects() == []


def test_a_refused_take_is_given_up_but_not_a_possible_duplicate() -> None:
    shell = Shell()
    shell.take()
    shell.node.refused(0, SendError.UNKNOWN_DUPLICATE, "", 4.0)
    assert (shell.node.state, shell.effects()) == (State.TAKING, [])
    shell.node.refused(0, SendError.OTHER, "no bookies", 4.0)
    assert (shell.node.state, shell.effects()) == (State.FOLLOWING, [Act.UNFENCE])


def test_a_resignation_before_the_last_lease_has_ended_is_written_when_it_has() -> None:
    """The node may have taken over because the last leader was disconnected, though that leader is
    still alive. A node that reads a resignation serves at once."""
    shell = Shell()
    shell.node.read(at(0), take_bytes(1, "n2"), 10.0)
    other = Epoch(1, at(0))
    shell.node.read(at(1), other.record(kind=Kind.HEARTBEAT), 10.0)
    shell.node.tick(10.0 + GONE_S, 0)
    shell.node.gone(10.0 + GONE_S)
    shell.node.tick(10.0 + GONE_S, 0)
    shell.node.probed(at(1), 10.0 + GONE_S)
    shell.effects()
    shell.node.fenced(2, BYTES_MAX, "nonce", 11.4)
    shell.node.read(at(2), shell.send().data, 11.4)
    shell.node.opened()
    shell.node.resign("asked to")
    shell.effects()
    shell.node.write_resignation(50, 11.5)
    assert shell.effects() == []
    ends = 10.0 + LEASE_S + MARGIN_S
    assert not shell.node.serves(ends)
    shell.node.tick(ends - 0.01, 50)
    assert shell.effects() == []
    shell.node.tick(ends, 50)
    written = parse_entry(shell.send().data)
    assert isinstance(written, Record)
    assert written.is_resignation
    shell.node.tick(ends + 0.1, 50)
    assert shell.effects() == []


def test_a_follower_whose_disk_is_full_stops_and_a_leader_resigns_without_applying() -> None:
    follower = Shell()
    follower.node.apply_failed("disk full", 1.0)
    assert follower.node.state is State.STOPPED
    leader = Shell()
    leader.lead()
    leader.node.apply_failed("disk full", 4.0)
    assert leader.effects() == [Act.RESIGN]
    leader.node.write_resignation(50, 4.0)
    leader.send()
    leader.node.receipt(1, at(1), 4.1)
    assert leader.effects() == [Act.CLOSE]
    leader.node.closed(EMPTY, 4.2)
    assert leader.node.state is State.STOPPED


def test_a_follower_that_lacks_a_record_stops() -> None:
    shell, other = Shell(), Epoch(1, at(0))
    other.record(b"lost")
    shell.node.read(at(0), take_bytes(1, "n2"), 1.0)
    shell.node.read(at(2), other.record(b"b", stored=1), 1.0)
    assert shell.node.state is State.STOPPED
    assert "expected record 1 at 1:2 or before it" in shell.node.leadership.why


def test_a_new_leader_continues_from_the_last_stamp_that_counts() -> None:
    shell, other = Shell(), Epoch(1, at(0))
    shell.node.read(at(0), take_bytes(1, "n2"), 0.0)
    shell.node.read(at(1), other.record(b"a", stamp_ms=9_000), 0.0)
    shell.node.tick(SILENCE_S, 0)
    shell.node.probed(at(1), SILENCE_S)
    shell.effects()
    shell.node.fenced(2, BYTES_MAX, "nonce", SILENCE_S)
    shell.node.read(at(2), shell.send().data, SILENCE_S)
    shell.effects()
    shell.node.commit(b"body", 1_000, lambda: None, 4.0)
    record = parse_entry(shell.send().data)
    assert not isinstance(record, Take)
    assert record.stamp_ms == 9_000


def test_a_followers_clock_is_compared_with_its_leaders() -> None:
    shell, one = Shell(), Epoch(1, at(0))
    node = shell.node
    node.read(at(0), take_bytes(1), 0.0, 0)
    for number, clock_ms in enumerate((1_300, 1_150, 1_900), start=1):
        node.read(at(number), one.record(stamp_ms=1_000), 0.0, clock_ms)
    assert (node.skew.skew_ms, node.skew.is_alarming) == (150, True)
    node.read(at(4), take_bytes(2, "n2"), 0.0, 2_000)
    assert (node.skew.skew_ms, node.skew.is_alarming) == (0, False)
    two = Epoch(2, at(4), one.link)
    node.read(at(5), two.record(stamp_ms=2_000), 0.0, None)
    assert node.skew.skew_ms == 0
    node.read(at(6), two.record(stamp_ms=2_000), 0.0, 1_950)
    assert (node.skew.skew_ms, node.skew.is_alarming) == (-50, False)


def test_nothing_is_written_that_a_member_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (node_module, entries):
        monkeypatch.setattr(module, "VERSION", 5)
    shell = Shell()
    shell.node.all_read(3)
    take = shell.take()
    shell.node.read(at(0), take, SILENCE_S)
    shell.node.opened()
    written = [take[3]]
    for all_read in (3, 2, 9, 0):
        shell.node.all_read(all_read)
        assert shell.node.commit(b"body", 0, lambda: None, SILENCE_S)
        written += [each.data[3] for each in shell.effects() if isinstance(each, Send)]
    assert written == [3, 3, 2, 5, 1]


def new_shell() -> Shell:
    """The shell of a node whose directory knows of no history."""
    shell = Shell()
    shell.node = Node(SHARD, "n1", Applied("", FOUNDATION, NOWHERE, FOUNDATION), 0.0)
    shell.node.active(True)
    return shell


def test_where_no_node_has_ever_written_none_is_waited_for() -> None:
    shell = new_shell()
    shell.node.tick(0.1, 0)
    shell.node.probed(NOWHERE, 0.1)
    shell.node.fenced(1, BYTES_MAX, "nonce", 0.1)
    *acts, take = shell.effects()
    assert acts == [Act.PROBE, Act.FENCE]
    assert isinstance(take, Send)
    shell.node.read(at(0), take.data, 0.2)
    shell.node.opened()
    assert shell.node.leadership.serve_from < 0.2


def test_a_node_that_has_read_something_waits_for_silence() -> None:
    shell = new_shell()
    shell.node.read(at(0), take_bytes(1, "n2"), 0.1)
    shell.node.tick(0.2, 0)
    assert shell.effects() == []
    shell.node.tick(0.1 + SILENCE_S, 0)
    assert shell.effects() == [Act.PROBE]


def test_a_node_with_a_directory_waits_for_silence() -> None:
    shell = Shell()
    shell.node.tick(0.2, 0)
    assert shell.effects() == []
    shell.node.tick(SILENCE_S, 0)
    assert shell.effects() == [Act.PROBE]
