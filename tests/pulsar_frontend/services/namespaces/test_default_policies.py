"""Defaults of the broker hold over a real core, where nobody nearer says otherwise."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.names import parse_topic
from arneb_pulsar.namespaces.defaults import DefaultPolicies
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

NAMESPACE = "/admin/v2/namespaces/public/default"
SCHEMA = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)


async def test_no_policy_lifts_what_the_broker_demands_of_producers(
    open_broker: OpenBroker,
) -> None:
    defaults = DefaultPolicies(schema_validation=True)
    async with (
        open_broker(defaults=defaults) as running,
        connected(running.context) as (client,),
    ):
        admin = Admin(running)
        await client.producer("t", 1, schema=SCHEMA)
        for path in (f"{NAMESPACE}/schemaValidationEnforced", "/t/schemaValidationEnforced"):
            assert (await admin("POST", path, False))[0] == 204
        answer = await client.producer("t", 2)
        assert (type(answer), answer.error) == (pb.CommandError, pb.IncompatibleSchema)
        plain = pb.Schema(name="BYTES", schema_data=b"", type=getattr(pb.Schema, "None"))
        await client.send(pb.CommandGetOrCreateSchema(request_id=9, topic="t", schema=plain))
        sent = await client.expect(pb.CommandGetOrCreateSchemaResponse)
        assert sent.error_code == pb.IncompatibleSchema
        applied = await admin("GET", f"{NAMESPACE}/encryptionRequired")
        assert applied == (200, False)


async def test_no_policy_lifts_what_the_broker_demands_of_encryption(
    open_broker: OpenBroker,
) -> None:
    defaults = DefaultPolicies(encryption_required=True)
    async with (
        open_broker(defaults=defaults) as running,
        connected(running.context) as (client,),
    ):
        await Admin(running)("POST", f"{NAMESPACE}/encryptionRequired", False)
        answer = await client.producer("t", 1)
        assert (type(answer), answer.error) == (pb.CommandError, pb.MetadataError)


def rate_of_throttle(running: Running, topic: str) -> Any:
    found = running.context.throttles.of(running.core.topic(parse_topic(topic).core_name))
    return None if found is None else found.rate.messages


async def test_the_nearest_publish_rate_holds(open_broker: OpenBroker) -> None:
    def rate(messages: int) -> dict[str, int]:
        return {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}

    async with (
        open_broker(defaults=DefaultPolicies(publish_rate=100)) as running,
        connected(running.context) as (client,),
    ):
        admin = Admin(running)
        await client.producer("t", 1)
        seen = [rate_of_throttle(running, "t")]
        for path, messages in (
            (f"{NAMESPACE}/publishRate", 50),
            ("/t/publishRate", 20),
            ("/t/publishRate", -1),
            (f"{NAMESPACE}/publishRate", 0),
        ):
            await admin("POST", path, rate(messages))
            seen.append(rate_of_throttle(running, "t"))
        assert seen == [100, 50, 20, 50, 100]


async def test_a_quota_of_the_broker_keeps_producers_out(open_broker: OpenBroker) -> None:
    defaults = DefaultPolicies(backlog_quota_bytes=1, backlog_quota_policy="producer_exception")
    async with (
        open_broker(defaults=defaults) as running,
        connected(running.context) as (client,),
    ):
        admin = Admin(running)
        await admin("PUT", "/t")
        await admin("PUT", "/t/subscription/s", "earliest")
        await client.producer("t", 1)
        await client.publish(b"x")
        await client.take(1)
        answer = await client.producer("t", 2)
        assert (type(answer), answer.error) == (
            pb.CommandError,
            pb.ProducerBlockedQuotaExceededException,
        )
        shown = (await admin("GET", "/t/backlogQuotaMap", applied="true"))[1]
        assert {each["limitSize"] for each in shown.values()} == {1}
        assert (await admin("GET", f"{NAMESPACE}/backlogQuotaMap"))[1] == {}


@pytest.mark.parametrize("root", [NAMESPACE, "/t"])
async def test_more_is_kept_than_may_wait(open_broker: OpenBroker, root: str) -> None:
    def quota(size: int, seconds: int = -1) -> dict[str, Any]:
        return {"limitSize": size, "limitTime": seconds, "policy": "producer_exception"}

    def retention(minutes: int, megabytes: int) -> dict[str, int]:
        return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}

    megabyte = 1024 * 1024
    async with open_broker(defaults=DefaultPolicies(backlog_quota_s=300)) as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        is_topic = root == "/t"
        kept, waits = f"{root}/retention", f"{root}/backlogQuota"
        assert (await admin("POST", kept, retention(5, 5)))[0] == (412 if is_topic else 204)
        assert (await admin("POST", kept, retention(6, 5)))[0] == 204
        assert (await admin("POST", waits, quota(5 * megabyte)))[0] == 412
        assert (await admin("POST", waits, quota(5 * megabyte - 1)))[0] == 204
        assert (await admin("POST", waits, quota(1, 360)))[0] == 412
        assert (await admin("POST", kept, retention(6, 4)))[0] == 412
        assert (await admin("POST", kept, retention(6, -1)))[0] == 204
        assert (await admin("POST", waits, quota(9 * megabyte)))[0] == 204
        aged = await admin("POST", waits, quota(1, 360), backlogQuotaType="message_age")
        assert aged[0] == (412 if is_topic else 204)


async def test_what_type_a_subscription_may_be_is_said_by_the_nearest_but_for_key_shared(
    open_broker: OpenBroker,
) -> None:
    defaults = DefaultPolicies(subscription_types=("Shared",))
    async with (
        open_broker(defaults=defaults) as running,
        connected(running.context) as (client,),
    ):
        admin = Admin(running)
        shared, failover, keyed = (
            pb.CommandSubscribe.Shared,
            pb.CommandSubscribe.Failover,
            pb.CommandSubscribe.Key_Shared,
        )
        number = 0

        async def may(kind: int) -> bool:
            nonlocal number
            number += 1
            answer = await client.subscribe("t", number, subscription=f"s{kind}", subType=kind)
            return isinstance(answer, pb.CommandSuccess)

        assert [await may(kind) for kind in (shared, keyed)] == [True, False]
        types = ["Failover", "Key_Shared"]
        await admin("POST", f"{NAMESPACE}/subscriptionTypesEnabled", types)
        assert [await may(kind) for kind in (shared, keyed)] == [False, False]
        await admin("POST", "/t/subscriptionTypesEnabled", ["Shared", "Key_Shared"])
        assert [await may(kind) for kind in (shared, keyed, failover)] == [True, False, False]
