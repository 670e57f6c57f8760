"""The admin API: what operators and clients request, and the answers."""

import time
from typing import Any

import pulsar
import pytest
from conformance.pulsar.admin import NAMESPACE, Admin, Refused, local
from conformance.pulsar.conftest import Named, arneb_only
from conformance.pulsar.helpers import WITHIN_MS, assert_gets, numbers, payloads, send, take

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
WITHIN_S = 30.0


def refused(call: Any, *arguments: Any, **query: str) -> int:
    """The status with which a call is refused."""
    with pytest.raises(Refused) as caught:
        call(*arguments, **query)
    return caught.value.status


def backlog(admin: Admin, topic: str, subscription: str = "s") -> int:
    stats = admin.get(f"{local(topic)}/stats")
    found: int = stats["subscriptions"][subscription]["msgBacklog"]
    return found


def test_the_id_for_a_time_is_that_of_the_first_message_since_or_the_one_to_come(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    producer = client.create_producer(topic)
    first, last = producer.send(b"1"), producer.send(b"2")

    def id_at(time_ms: int) -> tuple[int, int]:
        found = admin.get(f"{local(topic)}/messageid/{time_ms}")
        return found["ledgerId"], found["entryId"]

    assert id_at(0) == (first.ledger_id(), first.entry_id())
    assert id_at(round(time.time() * 1000) + 60_000) == (last.ledger_id(), last.entry_id() + 1)


def test_what_is_asked_of_one_log_is_asked_of_one_partition(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    place = {"ledgerId": 1, "entryId": 0, "partitionIndex": -1}
    topic = name("topic")
    admin.put(f"{topic}/partitions", 2)
    admin.put(f"{topic}/subscription/s", "earliest")
    for method, path, body in (
        ("POST", "subscription/s/skip/1", None),
        ("POST", "subscription/s/resetcursor", place),
        ("POST", "subscription/s/expireMessages", place),
        ("POST", "subscription/s/analyzeBacklog", None),
        ("GET", "subscription/s/position/1", None),
        ("GET", "examinemessage", None),
        ("GET", "ledger/1/entry/0", None),
        ("GET", "messageid/0", None),
        ("PUT", "backlogSize", place),
        ("POST", "terminate", None),
    ):
        assert refused(admin.call, method, f"{topic}/{path}", body) == 405, path
    assert refused(admin.get, f"{topic}/lastMessageId") == 404
    fleeting = name("topic")
    client.create_producer(f"non-persistent://public/default/{fleeting}")
    root = f"/admin/v2/non-persistent/public/default/{fleeting}"
    for path in ("subscription/s/position/1", "examinemessage", "messageid/0", "lastMessageId"):
        assert refused(admin.get, f"{root}/{path}") == 405, path
    # The client accepts none of the content types of this answer, and Apache Pulsar notices that
    # first.
    assert refused(admin.post, f"{root}/terminate") in (405, 406)


def test_the_cluster_is_there(admin: Admin) -> None:
    assert admin.get("/admin/v2/clusters") == ["standalone"]
    assert admin.get("/admin/v2/clusters/standalone")["serviceUrl"].startswith("http://")
    assert len(admin.get("/admin/v2/brokers/standalone")) == 1
    assert admin.read("/admin/v2/brokers/health") == b"ok"
    assert "public" in admin.get("/admin/v2/tenants")
    assert "public/default" in admin.get("/admin/v2/namespaces/public")
    assert refused(admin.get, "/admin/v2/tenants/none") == 404
    assert refused(admin.get, "/admin/v2/namespaces/none") == 404
    assert refused(admin.get, "/admin/v2/namespaces/public/none") == 404
    assert refused(admin.get, "/admin/v2/nothing") == 404
    assert refused(admin.call, "PATCH", "t/stats") == 405


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (None, "TenantInfo is null"),
        ({}, "Clusters cannot be null"),
        ({"allowedClusters": None}, "Clusters cannot be null"),
        ({"allowedClusters": []}, "Clusters cannot be empty or blank"),
        ({"allowedClusters": ["standalone", " "]}, "Clusters cannot be empty or blank"),
        ({"allowedClusters": ["elsewhere"]}, "Clusters do not exist"),
    ],
)
def test_a_tenant_names_its_clusters(admin: Admin, name: Named, document: Any, reason: str) -> None:
    there, new = name("tenant"), name("tenant")
    admin.put(f"/admin/v2/tenants/{there}", {"allowedClusters": ["standalone"]})
    for call, tenant in ((admin.put, new), (admin.post, there)):
        with pytest.raises(Refused) as caught:
            call(f"/admin/v2/tenants/{tenant}", document)
        assert (caught.value.status, caught.value.reason) == (412, reason)
    assert new not in admin.get("/admin/v2/tenants")


def test_tenants_and_namespaces_come_and_go(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    tenant = name("tenant")
    info = {"adminRoles": ["root"], "allowedClusters": ["standalone"]}
    assert refused(admin.put, f"/admin/v2/namespaces/{tenant}/shop") == 404
    admin.put(f"/admin/v2/tenants/{tenant}", info)
    assert refused(admin.put, f"/admin/v2/tenants/{tenant}", info) == 409
    assert admin.get(f"/admin/v2/tenants/{tenant}") == info
    admin.put(f"/admin/v2/namespaces/{tenant}/shop")
    assert refused(admin.put, f"/admin/v2/namespaces/{tenant}/shop") == 409
    assert admin.get(f"/admin/v2/namespaces/{tenant}") == [f"{tenant}/shop"]
    topic = f"persistent://{tenant}/shop/t"
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(f"persistent://{tenant}/other/t")
    assert admin.get(f"/admin/v2/namespaces/{tenant}/shop/topics") == [topic]
    assert admin.get(f"/admin/v2/persistent/{tenant}/shop") == [topic]
    assert refused(admin.delete, f"/admin/v2/namespaces/{tenant}/shop") == 409
    assert refused(admin.delete, f"/admin/v2/tenants/{tenant}") == 409
    producer.close()
    admin.delete(f"/admin/v2/persistent/{tenant}/shop/t")
    admin.delete(f"/admin/v2/namespaces/{tenant}/shop")
    admin.delete(f"/admin/v2/tenants/{tenant}")
    assert tenant not in admin.get("/admin/v2/tenants")


def test_a_topic_comes_and_goes(client: pulsar.Client, admin: Admin, topic: str) -> None:
    assert refused(admin.delete, local(topic)) == 404
    assert refused(admin.get, f"{local(topic)}/partitions") == 404
    admin.put(local(topic))
    assert admin.get(f"{local(topic)}/partitions")["partitions"] == 0
    assert topic in admin.get("/admin/v2/persistent/public/default")
    consumer = client.subscribe(topic, "s")
    assert refused(admin.delete, local(topic)) == 412
    consumer.close()
    admin.delete(local(topic))
    assert topic not in admin.get("/admin/v2/persistent/public/default")
    client.subscribe(topic, "s")
    admin.delete(local(topic), force="true")


def test_lookups_are_answered(
    broker_urls: Any, admin: Admin, topic: str, pytestconfig: pytest.Config
) -> None:
    found = admin.get(f"/lookup/v2/topic/persistent/public/default/{local(topic)}")
    # in a cluster, the answer names the node that leads
    if not pytestconfig.getoption("arneb_nodes"):
        assert found["brokerUrl"] == broker_urls.pulsar
    assert found["httpUrl"].startswith("http://")
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(found["brokerUrl"], operation_timeout_seconds=30, logger=quiet)
    send(client.create_producer(topic), numbers(1))
    client.close()
    assert Admin(found["httpUrl"]).get(f"{local(topic)}/stats")["msgInCounter"] == 1


def test_a_client_may_find_its_broker_over_http(broker_urls: Any, topic: str) -> None:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker_urls.admin, operation_timeout_seconds=30, logger=quiet)
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(3))
    assert payloads(take(consumer, 3)) == numbers(3)
    client.close()


def test_subscriptions_are_made_and_moved(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{local(topic)}/subscription/s", "earliest")
    assert refused(admin.put, f"{local(topic)}/subscription/s", "earliest") == 409
    assert admin.get(f"{local(topic)}/subscriptions") == ["s"]
    producer = client.create_producer(topic, batching_enabled=False)
    ids = send(producer, numbers(10))
    assert backlog(admin, topic) == 10
    assert admin.read(f"{local(topic)}/subscription/s/position/3") == b"2"
    assert refused(admin.get, f"{local(topic)}/subscription/s/position/11") == 404
    place = f"ledger/{ids[4].ledger_id()}/entry/{ids[4].entry_id()}"
    assert admin.read(f"{local(topic)}/{place}") == b"4"
    admin.post(f"{local(topic)}/subscription/s/skip/3")
    assert backlog(admin, topic) == 7
    admin.post(f"{local(topic)}/subscription/s/skip_all")
    assert backlog(admin, topic) == 0
    wanted = {"ledgerId": ids[6].ledger_id(), "entryId": ids[6].entry_id(), "partitionIndex": -1}
    admin.post(f"{local(topic)}/subscription/s/resetcursor", wanted)
    assert backlog(admin, topic) == 4
    admin.post(f"{local(topic)}/subscription/s/resetcursor", wanted | {"excluded": True})
    assert backlog(admin, topic) == 3
    admin.post(f"{local(topic)}/subscription/s/resetcursor/{int(time.time() * 1000) - 3_600_000}")
    assert backlog(admin, topic) == 10
    admin.post(f"{local(topic)}/subscription/s/expireMessages/3600")
    assert backlog(admin, topic) == 10
    assert_gets(client.subscribe(topic, "s"), numbers(10))
    assert refused(admin.post, f"{local(topic)}/subscription/none/skip_all") == 404
    assert refused(admin.delete, f"{local(topic)}/subscription/none") == 404
    admin.put(f"{local(topic)}/subscription/mid", wanted)
    assert backlog(admin, topic, "mid") == 4
    admin.delete(f"{local(topic)}/subscription/mid")
    assert admin.get(f"{local(topic)}/subscriptions") == ["s"]


def test_a_subscription_in_use_goes_by_force_only(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.subscribe(topic, "s", SHARED)
    assert refused(admin.delete, f"{local(topic)}/subscription/s") == 412
    client.subscribe(topic, "other").close()
    admin.delete(f"{local(topic)}/subscription/other")


def test_messages_expire_by_hand(client: pulsar.Client, admin: Admin, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    send(producer, numbers(5))
    time.sleep(2.1)
    send(producer, numbers(5, first=5))
    consumer.close()
    admin.post(f"{local(topic)}/subscription/s/expireMessages/1")
    end = time.monotonic() + WITHIN_S
    while backlog(admin, topic) > 5:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert_gets(client.subscribe(topic, "s"), numbers(5, first=5))


@pytest.mark.parametrize(("excluded", "left"), [(False, 6), arneb_only(True, 7)])
def test_messages_expire_up_to_one(
    client: pulsar.Client, admin: Admin, topic: str, excluded: bool, left: int
) -> None:
    admin.put(f"{local(topic)}/subscription/s", "earliest")
    ids = send(client.create_producer(topic, batching_enabled=False), numbers(10))
    place = {"ledgerId": ids[3].ledger_id(), "entryId": ids[3].entry_id(), "partitionIndex": -1}
    wanted = place | {"excluded": excluded}
    admin.post(f"{local(topic)}/subscription/s/expireMessages", wanted)
    end = time.monotonic() + WITHIN_S
    while backlog(admin, topic) != left:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_expiring_an_empty_backlog_is_a_conflict(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    def status(path: str, body: object = None) -> int:
        try:
            admin.post(f"{local(topic)}/{path}", body)
        except Refused as refused:
            return refused.status
        return 204

    consumer = client.subscribe(topic, "connected")
    admin.put(f"{local(topic)}/subscription/away", "earliest")
    send(client.create_producer(topic, batching_enabled=False), numbers(5))
    admin.put(f"{local(topic)}/subscription/late", "latest")
    assert status("subscription/away/expireMessages/1000") == 204
    # Apache Pulsar checks for expired messages once at a time; a second check meanwhile is a
    # conflict too
    time.sleep(1)
    assert status("subscription/away/expireMessages/0") == 204
    assert backlog(admin, topic, "away") == 5
    assert status("subscription/late/expireMessages/1") == 409
    assert status("subscription/connected/expireMessages/1000") == 409
    time.sleep(1.1)
    assert status("all_subscription/expireMessages/1") == 409
    end = time.monotonic() + WITHIN_S
    while backlog(admin, topic, "away") or backlog(admin, topic, "connected"):
        assert time.monotonic() < end, "messages of the other subscriptions expire nevertheless"
        time.sleep(0.1)
    last = admin.get(f"{local(topic)}/lastMessageId")
    beyond = {"ledgerId": last["ledgerId"] + 1, "entryId": 0, "partitionIndex": -1}
    assert status("subscription/away/expireMessages", beyond) == 409
    assert status("subscription/away/expireMessages", beyond | {"partitionIndex": 3}) == 412
    consumer.close()


def test_statistics_list_producers_and_consumers(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", SHARED, consumer_name="me")
    producer = client.create_producer(topic, "mine", batching_enabled=False)
    send(producer, numbers(5))
    for message in take(consumer, 3)[:2]:
        consumer.acknowledge(message)
    end = time.monotonic() + WITHIN_S
    while backlog(admin, topic) != 3:
        assert time.monotonic() < end
        time.sleep(0.05)
    stats = admin.get(f"{local(topic)}/stats")
    [publisher] = stats["publishers"]
    assert (publisher["producerName"], publisher["accessMode"]) == ("mine", "Shared")
    subscription = stats["subscriptions"]["s"]
    assert (subscription["type"], subscription["unackedMessages"]) == ("Shared", 3)
    [one] = subscription["consumers"]
    assert one["consumerName"] == "me"
    assert (stats["msgInCounter"], stats["msgOutCounter"]) == (5, 5)
    internal = admin.get(f"{local(topic)}/internalStats")
    assert internal["entriesAddedCounter"] == 5
    assert internal["state"] == "LedgerOpened"
    assert internal["ledgers"][-1]["entries"] == 0
    assert "s" in internal["cursors"]


def test_unloading_loses_no_message(client: pulsar.Client, admin: Admin, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send(producer, numbers(3))
    assert payloads(take(consumer, 3)) == numbers(3)
    admin.put(f"{local(topic)}/unload")
    producer.send(b"after")
    got = [consumer.receive(WITHIN_MS).data()]
    while got[-1] != b"after":
        got.append(consumer.receive(WITHIN_MS).data())
    assert got in ([b"after"], [*numbers(3), b"after"])
    assert admin.get(f"{NAMESPACE}/bundles")["boundaries"]
