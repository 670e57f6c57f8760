"""A leader's records until each has its receipt."""

import pytest
from tests.cluster.protocol.kit import LeadingWindow, at

from arneb_cluster.protocol import window as window_module
from arneb_cluster.protocol.values import NOWHERE
from arneb_cluster.protocol.window import (
    RESEND_S,
    Lost,
    ReadBack,
    Reattach,
    Send,
    SendError,
)


def test_commits_are_reported_in_order_whatever_order_the_receipts_have() -> None:
    leader = LeadingWindow()
    for name in "abc":
        leader.commit(name)
    assert leader.sent() == [1, 2, 3]
    leader.window.receipt(2, at(2), 1.0)
    leader.window.receipt(2, at(2), 1.0)
    assert leader.names == []
    leader.window.receipt(1, at(1), 1.0)
    assert leader.names == ["a", "b"]
    leader.window.receipt(3, at(3), 1.0)
    assert leader.names == ["a", "b", "c"]
    assert leader.window.is_empty


def test_records_without_a_receipt_are_resent_verbatim_and_in_order_before_new_ones() -> None:
    leader = LeadingWindow()
    for name in "abc":
        leader.commit(name)
    first = leader.data()
    leader.window.receipt(1, at(1), 1.0)
    leader.window.detached()
    leader.commit("d")
    assert leader.effects() == []
    leader.window.attached(2.0)
    made = leader.data()
    assert list(made) == [2, 3, 4]
    assert (made[2], made[3]) == (first[2], first[3])


def test_a_duplicate_of_a_record_that_was_sent_once_ends_the_epoch() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.window.receipt(1, NOWHERE, 1.0)
    assert "somebody else has used the producer's name" in leader.why
    assert leader.names == []


def test_a_duplicate_of_a_resent_record_is_read_back_before_it_is_reported() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    (data,) = leader.data().values()
    leader.window.detached()
    leader.window.attached(1.0)
    leader.effects()
    leader.window.receipt(1, NOWHERE, 2.0)
    assert leader.effects() == [ReadBack(at(0))]
    leader.window.found(at(1), b"another", 2.0)
    assert leader.names == []
    leader.window.found(at(2), data, 2.0)
    assert leader.names == ["a"]
    leader.window.found_all()
    assert not leader.why


def test_contradictory_answers_of_pulsar_end_the_epoch() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.window.detached()
    leader.window.attached(1.0)
    leader.window.receipt(1, NOWHERE, 2.0)
    leader.window.found_all()
    assert leader.why == "Pulsar says that it has record 1, and it is not there"
    assert isinstance(leader.effects()[-1], Lost)


def test_what_is_doubted_during_a_reading_is_read_for_once_more() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.commit("b")
    made = leader.data()
    leader.window.detached()
    leader.window.attached(1.0)
    leader.effects()
    leader.window.receipt(1, NOWHERE, 2.0)
    leader.window.receipt(2, NOWHERE, 2.0)
    assert leader.effects() == [ReadBack(at(0))]
    leader.window.found(at(1), made[1], 2.0)
    leader.window.found_all()
    assert leader.effects() == [ReadBack(at(1))]
    leader.window.found(at(2), made[2], 2.0)
    leader.window.found_all()
    assert leader.names == ["a", "b"]


def test_a_place_before_that_of_the_previous_record_ends_the_epoch() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.commit("b")
    leader.window.receipt(1, at(5), 1.0)
    leader.window.receipt(2, at(4), 1.0)
    assert leader.why.startswith("expected record 2 behind 1:5")
    assert leader.names == ["a"]


def test_any_refusal_ends_the_epoch_and_nothing_more_is_reported() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.commit("b")
    leader.window.refused(1, SendError.OTHER, "no bookies", 1.0)
    assert "no bookies" in leader.why
    leader.window.receipt(1, at(1), 1.0)
    leader.window.receipt(2, at(2), 1.0)
    leader.window.attached(2.0)
    assert leader.names == []
    assert not [each for each in leader.effects()[2:] if isinstance(each, Send)]


def test_an_undecided_duplicate_is_waited_for_and_sent_again() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.sent()
    leader.window.refused(1, SendError.UNKNOWN_DUPLICATE, "", 1.0)
    leader.window.tick(1.0 + RESEND_S / 2)
    assert leader.sent() == []
    assert leader.window.due == 1.0 + RESEND_S
    leader.window.tick(1.0 + RESEND_S)
    assert leader.sent() == [1]
    leader.window.receipt(1, at(1), 2.0)
    assert leader.names == ["a"]


def test_a_fenced_producer_reconnects_once_and_a_refusal_is_final() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.sent()
    leader.window.refused(1, SendError.FENCED, "", 1.0)
    assert leader.effects() == [Reattach()]
    assert not leader.why
    leader.window.attached(2.0)
    assert leader.sent() == [1]
    leader.window.ended("refused: fenced")
    assert leader.why == "refused: fenced"


def test_a_receipt_for_something_unsent_ends_the_epoch() -> None:
    leader = LeadingWindow()
    leader.window.receipt(1, at(1), 1.0)
    assert "expected a receipt of what was sent" in leader.why


def test_a_late_receipt_for_a_reported_commit_changes_nothing() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.window.receipt(1, at(1), 1.0)
    leader.window.receipt(1, at(9), 1.0)
    leader.window.receipt(0, at(0), 1.0)
    assert (leader.names, leader.why) == (["a"], "")


def test_a_large_commit_is_sent_in_parts_that_a_broker_accepts() -> None:
    leader = LeadingWindow()
    leader.commit("a", size=200)
    made = leader.data()
    assert len(made) > 2
    assert all(len(each) <= 620 - 512 for each in made.values())
    for sequence in made:
        assert leader.names == []
        leader.window.receipt(sequence, at(sequence), 1.0)
    assert leader.names == ["a"]


def test_bytes_in_flight_are_bounded_but_one_record_is_always_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_module, "IN_FLIGHT_BYTES_MAX", 150)
    leader = LeadingWindow()
    for name in "abc":
        leader.commit(name)
    assert leader.sent() == [1, 2]
    leader.window.receipt(1, at(1), 1.0)
    assert leader.sent() == [3]
    monkeypatch.setattr(window_module, "IN_FLIGHT_BYTES_MAX", 1)
    leader.window.receipt(2, at(2), 1.0)
    leader.window.receipt(3, at(3), 1.0)
    leader.commit("d")
    assert leader.sent() == [4]


def test_a_receipt_renews_the_lease_from_when_the_record_was_first_sent() -> None:
    leader = LeadingWindow()
    leader.commit("a", now=3.0)
    leader.window.detached()
    leader.window.attached(8.0)
    leader.window.receipt(1, at(1), 9.0)
    ((_, _, _, sent_at),) = leader.stored
    assert sent_at == 3.0


def test_the_place_to_continue_reading_is_the_last_record_that_was_sent_once() -> None:
    """For a record that was sent twice, nobody knows which copy counts for readers."""
    leader = LeadingWindow()
    leader.commit("a")
    leader.window.receipt(1, at(1), 1.0)
    leader.commit("b")
    leader.window.detached()
    leader.window.attached(2.0)
    leader.window.receipt(2, at(5), 2.0)
    leader.commit("c")
    leader.window.receipt(3, at(6), 2.0)
    found = {name: (place, base.number) for name, place, base, _ in leader.stored}
    assert found == {"a": (at(1), 1), "b": (at(1), 1), "c": (at(6), 3)}


def test_a_part_is_not_a_place_to_continue_reading() -> None:
    leader = LeadingWindow()
    leader.commit("a")
    leader.commit("b", size=100)
    made = list(leader.data())
    for sequence in made[:-1]:
        leader.window.receipt(sequence, at(sequence), 1.0)
    leader.window.detached()
    leader.window.attached(2.0)
    leader.window.receipt(made[-1], at(9), 2.0)
    assert [(place, base.number) for _, place, base, _ in leader.stored] == [(at(1), 1)] * 2
