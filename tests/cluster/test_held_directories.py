"""The protocol's simulation with real directories, which lag behind what was confirmed by what they
hold in memory.

The rule: whatever happens between hold, report, takeover and flush, to one node or to all of them,
what was confirmed is in the log or was flushed. A reader in the process finds it once, and another
process finds what the row beside it says.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from tests.cluster.protocol.directory import MEMBERS
from tests.cluster.protocol.simulation import Simulation
from tests.cluster.protocol.test_simulation import ROUNDS, ClusterMachine, go_on, play
from tests.cluster.real_directory import RealDirectory, places_in

from arneb_cluster.founding import re_found

SEEDS = range(max(ROUNDS // 4, 1))


class HeldMachine(ClusterMachine):
    """The same rules, with stores."""

    def __init__(self) -> None:
        super().__init__()
        self._place = ExitStack()
        root = self._place.enter_context(tempfile.TemporaryDirectory(prefix="arneb-"))
        self._places = places_in(Path(root))

    def new_directory(self) -> RealDirectory:
        return RealDirectory(self._places)

    def teardown(self) -> None:
        with self._place:
            super().teardown()


TestHeld = HeldMachine.TestCase
TestHeld.settings = settings(
    max_examples=8, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_confirmed_is_lost_whatever_happens_to_lagging_directories(
    seed: int, tmp_path: Path
) -> None:
    places = places_in(tmp_path)
    simulation = Simulation(new_directory=lambda: RealDirectory(places))
    play(simulation, Random(seed), 400)
    simulation.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_new_history_begins_with_what_the_best_directory_has_on_disk(
    seed: int, tmp_path: Path
) -> None:
    """The log is lost, and all nodes are killed at the instant in which they hold something."""
    places, chance = places_in(tmp_path), Random(seed)
    simulation = Simulation(new_directory=lambda: RealDirectory(places))
    assert simulation.heal(60) is not None
    held_from = simulation.now + 0.6
    for _ in range(40):
        simulation.now += 0.02
        for node in chance.sample(simulation.nodes, 3):
            go_on(node, 6)
            node.publish(0 if simulation.now > held_from or chance.random() < 0.8 else 90)
            if simulation.now <= held_from and chance.random() < 0.05:
                node.take_over()
    simulation.check_all()
    directories = [cast(RealDirectory, each.directory) for each in simulation.nodes]
    assert any(each.replica.held_bytes for each in directories)
    best = max(directories, key=lambda each: each.flushed.link.number)
    kept = best.on_disk()
    assert kept
    assert simulation.confirmed[: len(set(kept) & set(simulation.confirmed))] == [
        each for each in kept if each in simulation.confirmed
    ]
    simulation.close()
    founded = re_found(best.path)
    assert founded.link == best.flushed.link
    nodes = iter([RealDirectory(places, best.path), RealDirectory(places), RealDirectory(places)])
    bodies_total = simulation.bodies_total
    simulation = Simulation(new_directory=lambda: next(nodes))
    simulation.bodies_total = bodies_total
    leader = simulation.heal(100)
    assert leader is not None
    leader.publish(0)
    simulation.heal(40)
    for each in simulation.nodes:
        found = each.directory.on_disk()
        assert found == each.directory.found
        assert found[: len(kept)] == kept
        made = [body for body in found[len(kept) :] if not body.startswith(MEMBERS)]
        assert simulation.confirmed == made
        assert each.directory.flushed.history == founded.history
    simulation.close()
