"""Ledger ids: of one topic each, in the order of its ledgers."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arneb_core.api.entries.ledger_ids import AS_COUNTED, LEDGERS, LedgerIds
from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, position_at

TOPICS = st.integers(1, 1 << 32)
NUMBERS = st.integers(1, 1 << 17) | st.integers(1, LEDGERS - 1)
LARGEST = (1 << 63) - 1


@given(TOPICS, TOPICS, NUMBERS, NUMBERS)
def test_no_two_topics_have_an_id_in_common(
    topic: int, other: int, ledger: int, others_ledger: int
) -> None:
    assume(topic != other)
    shown = LedgerIds(topic).of(ledger)
    assert shown != LedgerIds(other).of(others_ledger)
    assert LedgerIds(topic).ledger(shown) == ledger
    assert LedgerIds(other).ledger(shown) is None or topic == 1
    assert shown < 1 << 62


@given(TOPICS, NUMBERS, NUMBERS)
def test_ids_ascend_as_ledgers_do(topic: int, ledger: int, other: int) -> None:
    ids = LedgerIds(topic)
    assert (ids.of(ledger) < ids.of(other)) == (ledger < other)


@given(TOPICS, NUMBERS, st.integers(0, (1 << 32) - 2))
def test_a_place_is_found_again(topic: int, ledger: int, entry: int) -> None:
    ids, position = LedgerIds(topic), position_at(ledger, entry)
    assert ids.position(*ids.place(position)) == ids.nearest(*ids.place(position)) == position
    assert ids.position(ids.of(ledger), -1) is None
    assert ids.nearest(ids.of(ledger), -1) == position_at(ledger, 0)
    assert ids.place(position_at(ledger, -1)) == (ids.of(ledger), -1)
    assert ids.render(position) == f"{ids.of(ledger)}:{entry}"


def test_ids_of_other_topics_are_before_or_after_everything() -> None:
    ids = LedgerIds(7)
    assert ids.nearest(LedgerIds(6).of(90_000), 3) == BEFORE_ALL
    assert ids.nearest(LedgerIds(8).of(1), 3) == AFTER_ALL
    assert (ids.nearest(-1, -1), ids.nearest(LARGEST, LARGEST)) == (BEFORE_ALL, AFTER_ALL)
    assert ids.position(LedgerIds(8).of(1), 3) is None


@given(TOPICS, st.integers(1, (1 << 16) - 1))
def test_an_id_from_before_topics_were_in_it_means_this_topics_ledger(
    topic: int, ledger: int
) -> None:
    assert LedgerIds(topic).ledger(ledger) == ledger == AS_COUNTED.of(ledger)


@pytest.mark.parametrize("ids", [AS_COUNTED, LedgerIds(9)])
def test_places_in_no_log_are_shown_as_they_are(ids: LedgerIds) -> None:
    assert ids.place(position_at(1 << 62, 5)) == (1 << 62, 5)
    assert ids.ledger(1 << 62) is None
    assert ids.nearest(1 << 62, 5) == AFTER_ALL


def test_half_a_million_topics_have_ids_that_clients_can_shift() -> None:
    assert LedgerIds(1 << 19).of((1 << 16) - 1) < 1 << 35
