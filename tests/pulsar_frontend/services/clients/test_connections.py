"""Connections that show no sign of life are ended, and nobody else."""

import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.services.fakes import FakeConnection

from arneb_pulsar.services.clients.connections import close_dead


@given(st.lists(st.booleans(), max_size=6), st.booleans())
def test_only_dead_connections_of_others_are_ended(lives: list[bool], asker_lives: bool) -> None:
    asking = FakeConnection(lives=asker_lives)
    others = [FakeConnection(lives=each) for each in lives]
    assert trio.run(close_dead, [*others, asking], asking) is (not all(lives))
    assert [each.was_killed for each in others] == [not each for each in lives]
    assert not asking.was_killed
