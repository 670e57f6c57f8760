"""The protocol as a whole: several nodes, a topic with bad manners, and clients that were promised
something.

The rule: the machine below may do everything that a network, a disk, a clock and an operator may
do, in any order. Safety must not depend on any of it.
"""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.cluster.protocol.directory import Directory, MemoryDirectory
from tests.cluster.protocol.simulation import SimulatedNode, Simulation

NODES = st.integers(0, 2)
NODES_TOTAL = 3
FEW = st.integers(0, 4)
ROUNDS = int(os.environ.get("ARNEB_CLUSTER_ROUNDS", "30"))


class ClusterMachine(RuleBasedStateMachine):
    """Every rule is one step of a node or of its environment."""

    def new_directory(self) -> Directory:
        """What a node begins with."""
        return MemoryDirectory()

    @initialize()
    def begin(self) -> None:
        self.simulation = Simulation(new_directory=self.new_directory)
        leader = self.simulation.heal(60)
        assert leader is not None, "expected a leader where nothing goes wrong"

    def node(self, index: int) -> SimulatedNode:
        return self.simulation.nodes[index]

    @rule(index=NODES, steps=st.integers(1, 30))
    def run(self, index: int, steps: int) -> None:
        """A node works for a while, undisturbed."""
        go_on(self.node(index), steps)

    @rule(index=NODES)
    def step(self, index: int) -> None:
        if not self.node(index).paused:
            self.node(index).step()

    @rule(index=NODES, count=FEW)
    def read(self, index: int, count: int) -> None:
        if not self.node(index).paused:
            self.node(index).read(count)

    @rule(index=NODES)
    def tick(self, index: int) -> None:
        if not self.node(index).paused:
            self.node(index).tick()

    @rule(index=NODES)
    def happen(self, index: int) -> None:
        if not self.node(index).paused:
            self.node(index).happen()

    @rule(index=NODES, twice=st.booleans())
    def answer(self, index: int, twice: bool) -> None:
        if not self.node(index).paused:
            self.node(index).answer(twice)

    @rule(index=NODES, size=st.sampled_from([0, 20, 90]))
    def publish(self, index: int, size: int) -> None:
        if not self.node(index).paused:
            self.node(index).publish(size)

    @rule(index=NODES, is_active=st.booleans())
    def active(self, index: int, is_active: bool) -> None:
        self.node(index).machine.active(is_active)

    @rule(index=NODES)
    def pause(self, index: int) -> None:
        self.node(index).paused = not self.node(index).paused

    @rule(index=NODES, arrived=FEW)
    def kill(self, index: int, arrived: int) -> None:
        self.simulation.kill(self.node(index), arrived)

    @rule(index=NODES)
    def take_over(self, index: int) -> None:
        if not self.node(index).paused:
            self.node(index).take_over()

    @rule(index=NODES, arrived=FEW)
    def cut_off(self, index: int, arrived: int) -> None:
        self.simulation.cut_off(self.node(index), arrived)

    @rule(index=NODES)
    def break_disk(self, index: int) -> None:
        self.node(index).directory.fail()

    @rule(arrived=FEW)
    def kill_all(self, arrived: int) -> None:
        """What all of them only held is still in the log."""
        for each in self.simulation.nodes:
            self.simulation.kill(each, arrived)

    @rule(index=NODES, successor=st.sampled_from(["", "n0", "n1", "n2", "n9"]))
    def resign(self, index: int, successor: str) -> None:
        self.node(index).machine.resign("asked to", successor)
        self.node(index).gather()

    @rule(index=NODES, arrived=FEW)
    def cut(self, index: int, arrived: int) -> None:
        self.node(index).lose_connection(arrived)

    @rule(index=NODES)
    def notice(self, index: int) -> None:
        if not self.node(index).paused:
            self.node(index).notice()

    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        waiting = [each for each in self.simulation.topic.connections if each.arriving]
        if waiting:
            self.simulation.topic.arrive(data.draw(st.sampled_from(waiting)))

    @rule(count=st.integers(1, 5))
    def persist(self, count: int) -> None:
        for _ in range(count):
            if self.simulation.topic.is_writing:
                self.simulation.topic.persist()

    @rule()
    def fail(self) -> None:
        if self.simulation.topic.is_writing:
            self.simulation.topic.fail()

    @rule(written=FEW)
    def restart(self, written: int) -> None:
        self.simulation.topic.restart(written)

    @rule()
    def forget(self) -> None:
        self.simulation.topic.forget()

    @rule()
    def let_in_beside(self) -> None:
        self.simulation.topic.lets_in_beside = True

    @rule(index=NODES)
    def report(self, index: int) -> None:
        self.simulation.report(self.node(index))

    @rule()
    def roll(self) -> None:
        self.simulation.topic.roll()

    @rule(index=NODES)
    def lose_disk(self, index: int) -> None:
        """Not the latest copy, but one of what was trimmed."""
        if len([each for each in self.simulation.nodes if not each.lacks]) == NODES_TOTAL:
            self.node(index).lose_disk()

    @rule(index=NODES, source=NODES)
    def ask_for_copy(self, index: int, source: int) -> None:
        self.node(index).ask_for_copy(self.node(source))

    @rule(index=NODES)
    def copy(self, index: int) -> None:
        self.node(index).copy()

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.0, 1.9, 2.1, 3.1]))
    def wait(self, seconds: float) -> None:
        self.simulation.now += seconds

    @invariant()
    def one_leader(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.check()

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.check_all()
            self.simulation.close()


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(
    max_examples=30,
    stateful_step_count=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def go_on(node: SimulatedNode, steps: int) -> None:
    """A node works for a while, undisturbed."""
    for _ in range(steps):
        if node.paused:
            return
        node.notice()
        if not node.lags:
            node.read(3)
        node.answer(False)
        node.happen()
        node.tick()
        node.step()
        if node.connection is not None and node.connection.arriving:
            node.topic.arrive(node.connection)
        if node.topic.is_writing:
            node.topic.persist()


def disturb(simulation: Simulation, chance: Random) -> None:
    """Work goes on for an instant; then, now and then, one possible thing happens."""
    topic = simulation.topic
    simulation.now += chance.choice([0.0, 0.02, 0.1])
    for node in chance.sample(simulation.nodes, 3):
        go_on(node, chance.randint(0, 4))
        for _ in range(chance.choice([0, 0, 1, 3])):
            node.publish(chance.choice([0, 20, 90]))
        if chance.random() < 0.06 and not node.paused:
            node.take_over()
    node = chance.choice(simulation.nodes)
    leaders = [each for each in simulation.nodes if each.connection is not None]
    leader = chance.choice(leaders or simulation.nodes)
    what = chance.randint(0, 99)
    if what < 5:
        leader.lose_connection(chance.randint(0, 4))
    elif what < 7:
        topic.restart(chance.randint(0, 3))
    elif what < 9:
        topic.forget()
    elif what == 9 and topic.is_writing:
        topic.fail()
    elif what == 10:
        simulation.kill(chance.choice([node, leader]), chance.randint(0, 4))
    elif what == 11:
        victim = chance.choice([node, leader])
        victim.paused = not victim.paused
    elif what == 12:
        node.machine.resign("asked to")
        node.gather()
    elif what < 15:
        simulation.report(node)
    elif what < 17:
        topic.roll()
    elif what < 20:
        leader.answer(True)
    elif what < 24:
        node.machine.active(chance.random() < 0.7)
    elif what == 24:
        simulation.now += chance.choice([1.0, 2.1, 3.1])
    elif what == 26 and all(each.is_well for each in simulation.nodes):
        node.lose_disk()
    elif what < 30:
        for each in simulation.nodes:
            simulation.report(each)
            each.ask_for_copy(node)
            each.copy()
    elif what < 32:
        topic.lets_in_beside = True
    elif what < 34 and len(leaders) > 1:
        # A leader that was expelled reconnects at once.
        min(leaders, key=lambda each: each.epoch).lose_connection(chance.randint(0, 4))
    elif what < 38:
        leader.lags = not leader.lags
    elif what == 38:
        for each in simulation.nodes:
            each.paused = False
    elif what == 39:
        for each in simulation.nodes:
            simulation.kill(each, chance.randint(0, 4))
    elif what == 44:
        simulation.cut_off(node, chance.randint(0, 4))
    elif what == 40:
        node.directory.fail()
    elif what < 43 and node.has_failed:
        simulation.kill(node, chance.randint(0, 4))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_happens_promises_are_kept_and_a_node_leads_again(seed: int) -> None:
    play(Simulation(), Random(seed), 600)


def play(simulation: Simulation, chance: Random, turns: int) -> None:
    """Disturb it for so long; once nothing goes wrong any more, it must recover."""
    assert simulation.heal(60) is not None
    for _ in range(turns):
        disturb(simulation, chance)
        simulation.check()
    simulation.check_all()
    assert not [each for each in simulation.nodes if each.lacks and not each.has_lost]
    leader = simulation.heal()
    assert leader is not None, f"expected somebody to lead again: {simulation.nodes}"
    before = len(simulation.confirmed)
    leader.publish(0)
    simulation.heal(20)
    assert len(simulation.confirmed) == before + 1
    simulation.check_all()
    # All directories are equal once all nodes have read everything.
    assert len({each.directory.applied.link for each in simulation.nodes}) == 1
    assert len({tuple(each.directory.on_disk()) for each in simulation.nodes}) == 1


def test_a_leader_that_is_admitted_beside_another_confirms_nothing_and_serves_nobody() -> None:
    simulation = Simulation()
    old = simulation.heal(60)
    assert old is not None
    old.paused = old.lags = True
    others = [each for each in simulation.nodes if each is not old]
    for each in others:
        each.machine.active(each is others[0])
    for _ in range(60):
        simulation.now += 0.1
        for each in others:
            go_on(each, 6)
    new = others[0]
    assert new.machine.serves(new.clock)
    old.paused, simulation.topic.lets_in_beside = False, True
    old.lose_connection(0)
    for _ in range(40):
        simulation.now += 0.1
        go_on(old, 6)
        old.publish(0)
        old.gather()
        simulation.check()
    assert not simulation.topic.lets_in_beside, (
        "the old producer must have come back and been let in"
    )
    assert not old.machine.serves(old.clock)
    simulation.heal(60)
    simulation.check_all()
