"""How one node comes to lead, and stops leading."""

import pytest
from tests.cluster.protocol.kit import HISTORY, SHARD, Epoch, at, take

from arneb_cluster.protocol.entries import Kind, Record, parse_entry
from arneb_cluster.protocol.leadership import (
    PROBE_S,
    RESIGNING_S,
    RETRY_S,
    TAKING_S,
    Act,
    Leadership,
    State,
)
from arneb_cluster.protocol.lease import (
    GONE_S,
    LEASE_S,
    MARGIN_S,
    SILENCE_S,
    SUSPECT_S,
    Lease,
    Silence,
)
from arneb_cluster.protocol.reader import Verdict


def heartbeat() -> Record:
    found = parse_entry(Epoch(1, at(0)).record(b"", Kind.HEARTBEAT))
    assert isinstance(found, Record)
    return found


def resignation(successor: bytes = b"") -> Record:
    found = parse_entry(Epoch(1, at(0)).record(successor, Kind.RESIGNATION))
    assert isinstance(found, Record)
    return found


class Candidate:
    """A node that may try, at time 0."""

    def __init__(self) -> None:
        self.machine = Leadership(SHARD, HISTORY, "n1", Silence(0.0))
        self.machine.active(True)

    def acts(self) -> list[Act]:
        made, self.machine.acts = self.machine.acts, []
        return made

    def take(self, now: float, epoch: int = 2) -> None:
        """Up to where its TAKE is in flight."""
        self.machine.tick(now)
        self.machine.probed(at(5), at(5), now)
        self.machine.fenced(epoch, "nonce", now)
        assert self.acts() == [Act.PROBE, Act.FENCE, Act.TAKE]

    def lead(self, now: float) -> None:
        self.take(now)
        self.machine.read(at(6), self.machine.take, Verdict.TAKEN, now)
        assert self.acts() == [Act.OPEN]
        self.machine.opened()
        assert self.acts() == [Act.SERVE]
        assert self.machine.state is State.LEADING


def test_a_candidate_tries_after_three_seconds_of_silence_and_not_before() -> None:
    one = Candidate()
    one.machine.tick(SILENCE_S - 0.01)
    assert one.machine.state is State.FOLLOWING
    one.machine.tick(SILENCE_S)
    assert one.acts() == [Act.LOOK, Act.PROBE]


def test_a_heartbeat_keeps_a_leader_whichever_node_is_active() -> None:
    one = Candidate()
    for now in (1.0, 3.4, 5.8):
        one.machine.read(at(int(now)), heartbeat(), Verdict.COUNTED, now)
        one.machine.tick(now + 2.4)
        assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.LOOK])


def test_a_disconnected_leader_is_followed_sooner() -> None:
    one = Candidate()
    one.machine.tick(GONE_S - 0.01)
    assert one.acts() == []
    one.machine.tick(GONE_S)
    one.machine.tick(GONE_S + 0.1)
    assert one.acts() == [Act.LOOK]
    one.machine.gone(GONE_S + 0.2)
    assert one.acts() == [Act.PROBE]
    one.machine.probed(at(5), at(5), GONE_S + 0.2)
    one.machine.fenced(2, "nonce", GONE_S + 0.3)
    one.machine.read(at(6), one.machine.take, Verdict.TAKEN, GONE_S + 0.3)
    assert one.acts() == [Act.FENCE, Act.TAKE, Act.OPEN]
    assert one.machine.serve_from == LEASE_S + MARGIN_S


def test_an_observation_of_the_leader_is_outdated_once_somebody_has_written() -> None:
    one = Candidate()
    one.machine.tick(GONE_S)
    one.machine.read(at(3), heartbeat(), Verdict.COUNTED, GONE_S + 0.1)
    one.machine.gone(GONE_S + 0.2)
    one.machine.tick(2 * GONE_S + 0.2)
    assert one.acts() == [Act.LOOK, Act.LOOK]
    one.machine.gone(2 * GONE_S + 0.3)
    assert one.acts() == [Act.PROBE]
    one.machine.read(at(4), heartbeat(), Verdict.COUNTED, 2 * GONE_S + 0.4)
    one.machine.tick(3 * GONE_S + 0.5)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.LOOK])


def test_a_node_that_may_not_try_does_not_check_whether_the_leader_has_gone() -> None:
    one = Candidate()
    one.machine.tick(GONE_S)
    one.machine.active(False)
    one.machine.gone(GONE_S + 0.1)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.LOOK])


def test_a_node_that_is_not_active_does_not_try() -> None:
    one = Candidate()
    one.machine.active(False)
    one.machine.tick(100.0)
    assert one.acts() == [Act.SUSPECT]
    assert one.machine.state is State.FOLLOWING


def test_a_node_that_is_not_active_checks_the_active_one_now_and_then() -> None:
    one = Candidate()
    one.machine.active(False)
    one.machine.tick(SUSPECT_S - 0.01)
    assert one.acts() == []
    one.machine.tick(SUSPECT_S)
    one.machine.tick(SUSPECT_S + 1)
    assert one.acts() == [Act.SUSPECT]
    one.machine.tick(SUSPECT_S + TAKING_S)
    assert one.acts() == [Act.SUSPECT]


def test_nobody_is_fenced_before_the_topic_was_read_to_its_end() -> None:
    one = Candidate()
    one.machine.tick(SILENCE_S)
    one.machine.probed(at(7), at(6), SILENCE_S)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.PROBE])


def test_a_candidate_that_reads_a_new_entry_does_not_fence() -> None:
    one = Candidate()
    one.machine.tick(SILENCE_S)
    one.machine.read(at(3), heartbeat(), Verdict.COUNTED, SILENCE_S + 0.1)
    one.machine.probed(at(3), at(3), SILENCE_S + 0.2)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.PROBE])


def test_after_a_resignation_nobody_waits() -> None:
    one = Candidate()
    one.machine.read(at(3), resignation(), Verdict.COUNTED, 10.0)
    one.take(10.0)
    one.machine.read(at(6), one.machine.take, Verdict.TAKEN, 10.0)
    assert one.machine.serve_from < 10.0


def test_a_node_that_is_not_active_checks_after_a_resignation_too() -> None:
    one = Candidate()
    one.machine.active(False)
    one.machine.read(at(3), resignation(), Verdict.COUNTED, 10.0)
    one.machine.tick(10.0 + SUSPECT_S - 0.01)
    assert one.acts() == []
    one.machine.tick(10.0 + SUSPECT_S)
    assert one.acts() == [Act.SUSPECT]


def test_a_node_named_as_successor_tries_though_it_is_not_active() -> None:
    one = Candidate()
    one.machine.active(False)
    one.machine.read(at(3), resignation(b"n1"), Verdict.COUNTED, 10.0)
    assert one.acts() == [Act.PROBE]
    one.machine.probed(at(3), at(3), 10.0)
    one.machine.fenced(2, "nonce", 10.0)
    one.machine.read(at(6), one.machine.take, Verdict.TAKEN, 10.0)
    assert one.acts() == [Act.FENCE, Act.TAKE, Act.OPEN]
    assert one.machine.serve_from < 10.0


def test_the_active_node_lets_the_successor_go_first_and_then_tries() -> None:
    one = Candidate()
    one.machine.read(at(3), resignation(b"n2"), Verdict.COUNTED, 10.0)
    one.machine.tick(10.0 + SILENCE_S - 0.01)
    assert one.acts() == [Act.LOOK]
    one.machine.tick(10.0 + SILENCE_S)
    assert one.acts() == [Act.PROBE]


def test_a_successor_that_reads_a_new_entry_is_no_longer_one() -> None:
    one = Candidate()
    one.machine.active(False)
    one.machine.read(at(3), resignation(b"n1"), Verdict.COUNTED, 10.0)
    one.machine.read(at(4), take(3, "n2"), Verdict.TAKEN, 10.0)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.PROBE])
    one.machine.tick(10.1)
    assert one.acts() == []


def test_a_new_leader_waits_out_the_lease_of_the_last_writer() -> None:
    one = Candidate()
    one.take(SILENCE_S)
    one.machine.read(at(6), heartbeat(), Verdict.COUNTED, 3.5)
    one.machine.read(at(7), one.machine.take, Verdict.TAKEN, 3.6)
    one.machine.opened()
    one.machine.lease.renewed(5.0)
    assert not one.machine.serves(3.5 + LEASE_S)
    assert one.machine.serves(3.5 + LEASE_S + MARGIN_S)


def test_a_leader_whose_lease_has_ended_serves_nobody_and_may_serve_again() -> None:
    one = Candidate()
    one.lead(SILENCE_S)
    assert not one.machine.serves(SILENCE_S)
    one.machine.lease.renewed(SILENCE_S)
    assert one.machine.serves(SILENCE_S + LEASE_S - 0.01)
    assert not one.machine.serves(SILENCE_S + LEASE_S)
    one.machine.lease.renewed(20.0)
    assert one.machine.serves(20.1)


def test_a_late_receipt_never_shortens_a_lease() -> None:
    lease = Lease()
    lease.renewed(5.0)
    lease.renewed(1.0)
    assert lease.holds(6.9)


def test_a_take_that_does_not_count_is_given_up() -> None:
    one = Candidate()
    one.take(SILENCE_S)
    one.machine.read(at(6), one.machine.take, Verdict.STALE_TAKE, SILENCE_S)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.UNFENCE])
    one.machine.tick(SILENCE_S + RETRY_S - 0.01)
    assert one.acts() == []
    one.machine.tick(SILENCE_S + RETRY_S)
    assert one.acts() == [Act.PROBE]


def test_the_take_of_another_is_not_taken_for_its_own() -> None:
    one = Candidate()
    one.take(SILENCE_S)
    one.machine.read(at(6), take(3, "n2"), Verdict.TAKEN, SILENCE_S)
    assert (one.machine.state, one.acts()) == (State.TAKING, [])


def test_no_answer_is_waited_for_forever() -> None:
    one = Candidate()
    one.machine.tick(SILENCE_S)
    one.machine.tick(SILENCE_S + PROBE_S)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.PROBE])
    one = Candidate()
    one.take(SILENCE_S)
    one.machine.tick(SILENCE_S + TAKING_S)
    assert (one.machine.state, one.acts()) == (State.FOLLOWING, [Act.UNFENCE])


def test_a_node_that_loses_leadership_closes_its_engine_before_it_follows() -> None:
    one = Candidate()
    one.lead(SILENCE_S)
    one.machine.lease.renewed(SILENCE_S)
    one.machine.lost("fenced")
    assert (one.machine.state, one.acts()) == (State.CLOSING, [Act.CLOSE])
    assert not one.machine.serves(SILENCE_S + 0.1)
    one.machine.closed(5.0)
    assert (one.machine.state, one.machine.take) == (State.FOLLOWING, None)
    one.machine.tick(5.0 + SILENCE_S - 0.1)
    assert one.acts() == [Act.LOOK]


def test_a_node_that_resigns_stops_serving_before_it_announces_it() -> None:
    one = Candidate()
    one.lead(SILENCE_S)
    one.machine.lease.renewed(SILENCE_S)
    one.machine.resign("asked to")
    assert one.acts() == [Act.RESIGN]
    assert not one.machine.serves(SILENCE_S + 0.1)
    one.machine.resigned()
    assert one.acts() == [Act.CLOSE]


def test_a_resignation_without_a_receipt_is_given_up() -> None:
    one = Candidate()
    one.lead(SILENCE_S)
    one.machine.resign("asked to")
    one.machine.tick(10.0)
    one.machine.tick(10.0 + RESIGNING_S)
    assert one.machine.state is State.CLOSING


def test_a_leader_that_cannot_apply_resigns_and_then_does_nothing_more() -> None:
    one = Candidate()
    one.lead(SILENCE_S)
    one.machine.failed("disk full", SILENCE_S)
    assert one.acts() == [Act.RESIGN]
    one.machine.resigned()
    one.machine.closed(5.0)
    assert (one.machine.state, one.machine.why) == (State.STOPPED, "disk full")
    one.machine.tick(100.0)
    assert one.acts() == [Act.CLOSE]


@pytest.mark.parametrize("steps", range(4))
def test_a_follower_that_cannot_apply_stops_and_never_leads(steps: int) -> None:
    one = Candidate()
    machine = one.machine
    if steps > 0:
        machine.tick(SILENCE_S)
    if steps > 1:
        machine.probed(at(5), at(5), SILENCE_S)
    if steps > 2:
        machine.fenced(2, "nonce", SILENCE_S)
    machine.failed("disk full", SILENCE_S)
    assert machine.state is State.STOPPED
    assert (Act.UNFENCE in one.acts()) is (steps > 1)
    machine.fenced(2, "nonce", SILENCE_S)
    machine.tick(100.0)
    assert (machine.state, one.acts()) == (State.STOPPED, [])


def test_the_first_take_names_the_history() -> None:
    machine = Leadership(SHARD, "", "n1", Silence(0.0))
    machine.active(True)
    machine.tick(SILENCE_S)
    machine.probed(at(0), at(0), SILENCE_S)
    machine.fenced(1, "nonce", SILENCE_S)
    assert machine.take is not None
    assert machine.take.history == "nonce"
