"""A failover consumer that asks for nothing hears all the same whether it is active."""

import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.wire.proto.pulsar_pb2 import CommandActiveConsumerChange, CommandSubscribe

pytestmark = pytest.mark.real_time


async def test_it_hears_it_while_nothing_else_is_said(open_broker: OpenBroker) -> None:
    """Long before its connection would be asked for a sign of life."""
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe("t", subType=CommandSubscribe.Failover)
        assert (await client.expect(CommandActiveConsumerChange)).is_active
