"""Limits of a node that runs several brokers."""

from dataclasses import replace

import pytest

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import AmqpError
from arneb_amqp.server.admission.occupancy import Occupancy, Occupant
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_core.access.tables import Tables


def test_connections_and_channels_of_all_brokers_count_while_they_exist() -> None:
    config = replace(AmqpConfig(), connections_max=2, node_channels_max=3)
    node: list[Occupancy] = []
    first, second = (Occupancy(Tables(), config, node) for _ in range(2))
    alone = Occupancy(Tables(), config)
    for number, each in enumerate((first, second)):
        each.check_node()
        each.enter(ConnectionId(number), Occupant("anna", "/"))
        each.opening("anna")
    for each in (first, second):
        with pytest.raises(AmqpError, match=r"node connection limit \(2\)"):
            each.check_node()
    second.opening("anna")
    with pytest.raises(AmqpError, match=r"maximum allowed limit of \(3\)"):
        first.opening("anna")
    alone.check_node()
    second.end()
    first.check_node()
    first.opening("anna")
    assert (first.channels, second.channels) == (2, 2)
