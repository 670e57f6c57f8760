"""A leader hands over to a node by name: steps are counted, and no time passes."""

import pytest
from tests.cluster.protocol.simulation import SimulatedNode, Simulation

from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.lease import SILENCE_S


def led() -> tuple[Simulation, SimulatedNode]:
    """Three nodes; the first leads and stays the active one."""
    simulation = Simulation()
    leader = simulation.heal(60)
    assert leader is simulation.nodes[0]
    return simulation, leader


def arrive(simulation: Simulation) -> None:
    """Everything sent is written and answered."""
    for connection in list(simulation.topic.connections):
        while connection.arriving:
            simulation.topic.arrive(connection)
    while simulation.topic.is_writing:
        simulation.topic.persist()


def settle(simulation: Simulation, turns: int = 12) -> None:
    """Every node does what there is to do, while the clock stands still."""
    for _ in range(turns):
        for node in simulation.nodes:
            node.read(100)
            while node.to_do:
                node.step()
            while node.events:
                node.happen()
            arrive(simulation)
            while node.connection is not None and node.connection.answers:
                node.answer(False)
        simulation.check()


@pytest.mark.parametrize("successor", ["n1", "n2"])
def test_the_successor_serves_before_any_time_passes(successor: str) -> None:
    simulation, leader = led()
    leader.publish(90)
    settle(simulation)
    begun = simulation.now
    leader.machine.resign("handed over", successor)
    leader.gather()
    settle(simulation)
    chosen = next(each for each in simulation.nodes if each.name == successor)
    # The first heartbeat gives it its lease. It is due at once, and the shell provides the ticks.
    chosen.tick()
    settle(simulation)
    assert simulation.now == begun
    assert chosen.machine.serves(chosen.clock)
    assert leader.machine.state is State.FOLLOWING
    simulation.check_all()


def test_the_active_node_leads_if_the_successor_does_not_come() -> None:
    simulation, leader = led()
    leader.machine.resign("handed over", "nobody that there is")
    leader.gather()
    settle(simulation)
    assert [each.machine.state for each in simulation.nodes] == [State.FOLLOWING] * 3
    simulation.now += SILENCE_S + 0.1
    found = simulation.heal(20)
    assert found is simulation.nodes[0]
    simulation.check_all()


def test_an_old_resignation_names_nobody_once_another_has_led() -> None:
    simulation, leader = led()
    leader.machine.resign("handed over", "n1")
    leader.gather()
    settle(simulation)
    assert simulation.heal(10) is simulation.nodes[1]
    simulation.nodes[1].machine.resign("stops")
    simulation.nodes[1].gather()
    found = simulation.heal(30)
    assert found is simulation.nodes[0], (
        "the active node must lead, not the one that an old record named"
    )
    simulation.check_all()
