"""How calls are written: methods, slashes, encoded names, parameters that say nothing."""

import json
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from tests.pulsar_frontend.admin_client import NULL, Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.admin.api import answer
from arneb_pulsar.namespaces.bundles import bundle_of, evenly, named

pytestmark = pytest.mark.real_time

TOPICS = "/admin/v2/persistent/public/default"
CLUSTER = "/admin/v2/clusters/standalone"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/admin/v2/clusters", "GET, HEAD, OPTIONS"),
        (f"{CLUSTER}/", "DELETE, GET, HEAD, OPTIONS, POST, PUT"),
        (f"{TOPICS}/t", "DELETE, OPTIONS, PUT"),
    ],
)
async def test_options_lists_the_methods_of_a_path(
    open_broker: OpenBroker, path: str, allowed: str
) -> None:
    async with open_broker() as running:
        context = running.context
        reply = await answer(context, "OPTIONS", path, {}, b"", "here:8080")
        assert (reply.status, reply.body.decode(), dict(reply.headers)["Allow"]) == (
            200,
            allowed,
            allowed,
        )
        reply = await answer(context, "PATCH", path, {}, b"", "here:8080")
        assert (reply.status, dict(reply.headers)["Allow"]) == (405, allowed)
        reply = await answer(context, "OPTIONS", "/admin/v2/nothing", {}, b"", "here:8080")
        assert (reply.status, dict(reply.headers)) == (404, {})


async def test_what_a_topic_does_not_allow_names_no_methods(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        await Admin(running)("PUT", "/t")
        path = f"{TOPICS}/t/terminate/partitions"
        reply = await answer(running.context, "POST", path, {}, b"", "here:8080")
        assert (reply.status, dict(reply.headers)) == (405, {})
        assert json.loads(reply.body)["reason"].endswith("please use terminate commands")


async def test_names_may_be_encoded_as_forms_are(open_broker: OpenBroker) -> None:
    """As Pulsar's client in Java does it."""
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("PUT", "/a+b%2Bc") == (204, b"")
        assert await admin("GET", "") == (200, ["persistent://public/default/a b+c"])
        assert await admin("PUT", "/a%20b%2Bc/subscription/x+y", "earliest") == (204, b"")
        assert await admin("GET", "/a+b%2Bc/subscriptions") == (200, ["x y"])
        namespace = "/admin/v2/namespaces/public/default"
        assert await admin("POST", f"{namespace}/permissions/a+b", ["produce"]) == (204, b"")
        assert await admin("GET", f"{namespace}/permissions") == (200, {"a+b": ["produce"]})


async def test_subscriptions_are_encoded_twice_by_pulsars_client_in_java(
    open_broker: OpenBroker,
) -> None:
    """``TopicsImpl`` encodes the name, and ``WebTarget`` encodes that once more."""
    name = "a+b c/d:%41"
    sent = quote(quote_plus(name), safe="")
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        assert await admin("PUT", f"/t/subscription/{sent}", "earliest") == (204, b"")
        assert await admin("GET", "/t/subscriptions") == (200, [name])
        assert (await admin("POST", f"/t/subscription/{sent}/skip_all"))[0] == 204
        rate = f"/t/{quote_plus(name)}/dispatchRate"
        assert (await admin("POST", rate, {"dispatchThrottlingRateInMsg": 7}))[0] == 204
        assert (await admin("GET", rate))[1]["dispatchThrottlingRateInMsg"] == 7
        assert await admin("DELETE", f"/t/subscription/{sent}") == (204, b"")
        assert await admin("GET", "/t/subscriptions") == (200, [])


@pytest.mark.parametrize("name", ["%", "%4", "%ZZ", "a%g0"])
async def test_half_an_encoded_character_is_no_name(open_broker: OpenBroker, name: str) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", f"/{name}"))[0] == 400
        assert await admin("GET", "") == (200, [])


async def test_an_empty_parameter_says_nothing(open_broker: OpenBroker) -> None:
    namespace = "/admin/v2/namespaces/public/default"
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/p/partitions", 2)
        await admin("PUT", "/t")
        for given in ({}, {"perPartition": ""}, {"perPartition": "TRUE"}):
            _, shown = await admin("GET", "/p/partitioned-stats", **given)
            assert len(shown["partitions"]) == 2
        _, shown = await admin("GET", "/p/partitioned-stats", perPartition="1")
        assert shown["partitions"] == {}
        assert (await admin("GET", f"{namespace}/topics", mode=""))[0] == 200
        quota = {"limitSize": 10, "policy": "producer_exception"}
        assert (await admin("POST", f"{namespace}/backlogQuota", quota, backlogQuotaType=""))[
            0
        ] == 204
        _, shown = await admin("GET", f"{namespace}/backlogQuotaMap")
        assert list(shown) == ["destination_storage"]
        assert (await admin("POST", "/t/messageTTL", messageTTL="5"))[0] == 204
        assert await admin("GET", "/t/messageTTL") == (200, 5)
        assert (await admin("POST", "/t/messageTTL", messageTTL=""))[0] == 204
        assert await admin("GET", "/t/messageTTL") == (200, b"")
        bundle = f"{namespace}/0x00000000_0x40000000/split"
        assert (await admin("PUT", bundle, None, splitAlgorithmName=""))[0] == 204


@pytest.mark.parametrize("body", [None, NULL, "", True, 1])
async def test_only_what_says_no_turns_pausing_off(open_broker: OpenBroker, body: object) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        for path in ("/t", "/admin/v2/namespaces/public/default"):
            pauses = f"{path}/dispatcherPauseOnAckStatePersistent"
            assert await admin("POST", pauses, body) == (204, b"")
            assert await admin("GET", pauses) == (200, True)
            assert await admin("POST", pauses, False) == (204, b"")
            assert await admin("GET", pauses) == (200, False)


async def test_the_topics_of_one_bundle_are_listed(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        name = "persistent://public/default/t"
        here = named(*bundle_of(evenly(4), name))
        assert await admin("GET", "", bundle=here) == (200, [name])
        others = [named(low, high) for low, high in pairwise(evenly(4))]
        for other in (*others, "x", ""):
            if other != here:
                assert await admin("GET", "", bundle=other) == (200, [])


async def test_where_there_is_no_message_none_is_examined(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t")
        for query in ({}, {"initialPosition": "x"}, {"messagePosition": ""}):
            status, found = await admin("GET", "/t/examinemessage", **query)
            assert (status, "total message is zero" in found["reason"]) == (412, True)
        assert (await admin("GET", "/t/examinemessage", messagePosition="x"))[0] == 400
        await client.producer("t")
        await client.publish(b"x")
        await client.reply()
        assert (await admin("GET", "/t/examinemessage", messagePosition=""))[0] == 200


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/admin/persistent/public/standalone/n/t/stats", "version 1"),
        ("/admin/namespaces/public/standalone/n", "version 1"),
        ("/admin/properties/public", "version 1"),
        ("/lookup/v2/destination/persistent/public/standalone/n/t", "version 1"),
        ("/topics/persistent/public/default/t", "binary protocol"),
        ("/ws/v2/producer/persistent/public/default/t", "binary protocol"),
    ],
)
async def test_what_is_asked_in_another_way_says_how_to_ask(
    open_broker: OpenBroker, path: str, words: str
) -> None:
    async with open_broker() as running:
        reply = await answer(running.context, "GET", path, {}, b"", "here:8080")
        assert (reply.status, words in json.loads(reply.body)["reason"]) == (501, True)


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [
        ("peers", 200, b""),
        ("failureDomains", 200, {}),
        ("failureDomains/x", 404, "Domain x for cluster standalone does not exist"),
        ("namespaceIsolationPolicies", 404, "NamespaceIsolationPolicies for cluster standalone"),
        ("namespaceIsolationPolicies/brokers/b", 404, "NamespaceIsolationPolicies for cluster"),
    ],
)
async def test_what_no_cluster_has_is_not_there(
    open_broker: OpenBroker, path: str, status: int, answer: object
) -> None:
    async with open_broker() as running:
        found = await Admin(running)("GET", f"{CLUSTER}/{path}")
        if status == 200:
            assert found == (status, answer)
        else:
            assert (found[0], str(answer) in found[1]["reason"]) == (status, True)


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("DELETE", "/admin/v2/tenants/none", 404, "Tenant doesn't exist"),
        ("GET", "/admin/v2/tenants/none", 404, "Tenant does not exist"),
        ("GET", "/admin/v2/namespaces/a%20b", 412, "Tenant name is not valid"),
        ("DELETE", "/admin/v2/namespaces/a/b", 404, "Namespace a/b does not exist."),
        ("DELETE", f"{TOPICS}/x/partitions", 404, "Topic persistent://public/default/x not found."),
        ("GET", "/admin/v2/clusters/none/peers", 404, "Cluster does not exist"),
        ("GET", "/admin/v2/clusters/none/failureDomains/x", 412, "Cluster none does not exist."),
        ("GET", "/admin/v2/clusters/none/namespaceIsolationPolicies", 404, "Cluster none does"),
    ],
)
async def test_what_is_not_there_is_named_in_pulsars_words(
    open_broker: OpenBroker, method: str, path: str, status: int, reason: str
) -> None:
    async with open_broker() as running:
        found = await Admin(running)(method, path)
        assert (found[0], found[1]["reason"][: len(reason)]) == (status, reason)
