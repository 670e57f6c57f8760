"""A failover consumer that asks for nothing hears all the same whether it is active."""

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.wire.proto.pulsar_pb2 import CommandActiveConsumerChange, CommandSubscribe

pytestmark = pytest.mark.real_time


async def test_it_hears_it_while_nothing_else_is_said(open_broker: OpenBroker) -> None:
    """Long before its connection would be asked for a sign of life."""
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe("t", subType=CommandSubscribe.Failover)
        assert (await client.expect(CommandActiveConsumerChange)).is_active


@pytest.mark.parametrize(("by_hash", "active"), [(False, "a"), (True, "b")])
async def test_a_hash_chooses_for_partitions_too_if_the_settings_say_so(
    open_broker: OpenBroker, by_hash: bool, active: str
) -> None:
    """By its number, partition 0 goes to the first by name."""
    async with (
        open_broker(failover_consistent_hashing=by_hash) as running,
        connected(running.context, 3) as clients,
    ):
        admin = Admin(running)
        await admin("PUT", "/u/partitions", 1)
        names = dict(zip("abc", clients, strict=True))
        for name, client in names.items():
            await client.subscribe(
                "u-partition-0", subType=CommandSubscribe.Failover, consumer_name=name
            )
            await client.flow(1)
        statistics = (await admin("GET", "/u-partition-0/stats"))[1]
        (subscription,) = statistics["subscriptions"].values()
        assert subscription["activeConsumerName"] == active
