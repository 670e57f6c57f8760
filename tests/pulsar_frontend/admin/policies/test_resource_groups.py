"""Resource groups: kept, given to namespaces, and the rate that their producers share."""

import pytest
from tests.pulsar_frontend.admin_client import NULL, Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.names import parse_topic
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

GROUPS = "/admin/v2/resourcegroups"
NAMESPACE = "/admin/v2/namespaces/public/default"
NOTHING = {
    "publishRateInMsgs": -1,
    "publishRateInBytes": -1,
    "dispatchRateInMsgs": -1,
    "dispatchRateInBytes": -1,
}


async def test_a_group_is_kept_and_stays_while_it_is_used(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("PUT", f"{GROUPS}/g", {"publishRateInMsgs": 10}) == (204, b"")
        assert await admin("PUT", f"{GROUPS}/g", {"dispatchRateInBytes": "7"}) == (204, b"")
        empty = {"publishRateInBytes": "", "dispatchRateInMsgs": None}
        assert await admin("PUT", f"{GROUPS}/empty", empty) == (204, b"")
        for wrong in ({"publishRateInMsgs": "x"}, [], NULL, None):
            assert (await admin("PUT", f"{GROUPS}/g", wrong))[0] == 400
        assert (await admin("PUT", f"{GROUPS}/a%20b", {}))[0] == 412
        assert await admin("POST", f"{NAMESPACE}/resourcegroup/g") == (204, b"")
        assert (await admin("POST", f"{NAMESPACE}/resourcegroup/none"))[0] == 412
        assert (await admin("DELETE", f"{GROUPS}/g"))[0] == 412
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("GET", GROUPS) == (200, ["empty", "g"])
        expected = NOTHING | {"publishRateInMsgs": 10, "dispatchRateInBytes": 7}
        assert await admin("GET", f"{GROUPS}/g") == (200, expected)
        assert await admin("GET", f"{GROUPS}/empty") == (200, NOTHING)
        assert await admin("GET", f"{NAMESPACE}/resourcegroup") == (200, b"g")
        assert await admin("DELETE", f"{NAMESPACE}/resourcegroup") == (204, b"")
        assert await admin("GET", f"{NAMESPACE}/resourcegroup") == (200, b"")
        assert await admin("DELETE", f"{GROUPS}/g") == (204, b"")
        assert (await admin("GET", f"{GROUPS}/g"))[0] == 404
        assert (await admin("DELETE", f"{GROUPS}/g"))[0] == 404


async def test_topics_of_a_group_share_its_rate(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, throttles = Admin(running), running.context.throttles
        for number, name in enumerate(("one", "two"), 1):
            await client.producer(name, number)
        topics = [running.core.topic(parse_topic(name).core_name) for name in ("one", "two")]
        assert [throttles.of(each) for each in topics] == [None, None]
        await admin("PUT", f"{GROUPS}/g", {"publishRateInMsgs": 10})
        await admin("POST", f"{NAMESPACE}/resourcegroup/g")
        first, second = (throttles.of(each) for each in topics)
        assert first is not None
        assert second is not None
        now = running.context.clock.now()
        assert first.spend(10, 1, now) == now, "a second's worth"
        assert second.spend(10, 1, now) == now + 1.0, "the other topic has used up this second"
        await admin("PUT", f"{GROUPS}/g", {"publishRateInMsgs": 1000})
        assert first.shared is second.shared
        now = running.context.clock.now()
        assert first.spend(1000, 1, now) == now
        await admin("DELETE", f"{NAMESPACE}/resourcegroup")
        assert [throttles.of(each) for each in topics] == [None, None]
        await client.publish(b"x", producer_id=1)
        await client.expect(pb.CommandSendReceipt)
