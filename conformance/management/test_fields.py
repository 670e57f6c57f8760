"""Documents of both brokers, compared field by field after the same has happened on both."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.client import Client
from conformance.management.fields import by_name, differences

LISTS: Final = (
    "overview", "nodes", "connections", "channels", "consumers", "queues", "exchanges", "bindings",
    "vhosts", "users", "permissions", "topic-permissions", "policies", "operator-policies",
    "parameters", "global-parameters", "vhost-limits", "user-limits", "feature-flags", "whoami",
    "cluster-name", "definitions", "exchanges/%2F", "queues/%2F", "bindings/%2F",
    "vhosts/%2F/connections", "vhosts/%2F/channels", "vhosts/%2F/permissions",
    "users/fields/permissions", "queues/%2F/classic/bindings",
    "queues?page=1&page_size=10&sort=name", "connections?page=1", "channels?page=1",
    "exchanges?page=1", "queues?disable_stats=true&enable_queue_totals=true",
)  # fmt: skip

SINGLE: Final = (
    "queues/%2F/classic", "queues/%2F/quorum", "queues/%2F/stream", "queues/%2F/idle",
    "queues/%2F/transient", "exchanges/%2F/fan", "exchanges/%2F/amq.topic", "vhosts/%2F",
    "users/guest", "permissions/%2F/guest", "policies/%2F/fields",
    "vhost-limits/%2F", "healthchecks/node", "health/checks/alarms", "aliveness-test/%2F",
    "queues/%2F/classic?lengths_age=20&lengths_incr=5&msg_rates_age=20&msg_rates_incr=5",
    "overview?lengths_age=20&lengths_incr=5&msg_rates_age=20&msg_rates_incr=5",
    "exchanges/%2F/fan?msg_rates_age=20&msg_rates_incr=5",
)  # fmt: skip

USED: Final = ("classic", "quorum", "stream")

Ask = Callable[[str], Any]


def use(url: str) -> Iterator[None]:
    """Use one of everything, and stay connected."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": "fields"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("classic", durable=True, arguments={"x-max-length": 1000})
        for kind in ("quorum", "stream"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
        channel.queue_declare("idle")
        channel.queue_declare("transient", exclusive=True)
        channel.exchange_declare("fan", "fanout")
        for queue in ("classic", "quorum", "stream"):
            channel.queue_bind(queue, "fan")
        for _ in range(10):
            channel.basic_publish("fan", "k", b"hello", pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", "nowhere", b"hello")
        for queue in ("classic", "quorum"):
            method, _, _ = channel.basic_get(queue)
            channel.basic_ack(method.delivery_tag)
            channel.basic_get(queue, auto_ack=True)
        channel.basic_get("idle")
        consuming = connection.channel()
        consuming.basic_qos(prefetch_count=3)
        for queue in ("classic", "quorum", "stream"):
            consuming.basic_consume(queue, lambda *_: None, consumer_tag=f"of-{queue}")
        transactional = connection.channel()
        transactional.tx_select()
        transactional.basic_publish("", "classic", b"later")
        connection.process_data_events(1.0)
        while True:
            yield
            connection.process_data_events(0)


def set_up(client: Client) -> None:
    policy = {"pattern": "^never$", "definition": {"max-length": 3}, "apply-to": "queues"}
    limits = {"pattern": "^never$", "definition": {"max-length": 9}, "apply-to": "queues"}
    for path, body in (
        ("users/fields", {"password": "p", "tags": "management"}),
        ("permissions/%2F/fields", {"configure": "a", "write": "b", "read": "c"}),
        ("topic-permissions/%2F/fields", {"exchange": "amq.topic", "write": "a", "read": "b"}),
        ("policies/%2F/fields", policy),
        ("operator-policies/%2F/fields", limits),
        ("vhost-limits/%2F/max-queues", {"value": 1000}),
        ("user-limits/fields/max-connections", {"value": 1000}),
        ("global-parameters/fields", {"value": {"a": 1}}),
    ):
        answer = client.call("PUT", path, body)
        assert answer.status in (201, 204), (path, answer)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ask, Ask]]:
    """Two functions that return a broker's answer for a path: Arneb's and RabbitMQ's."""
    if not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    theirs = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), management=True).start()
    ours = Arneb(tmp_path_factory.mktemp("arneb"))
    try:
        ours.start()
        clients = Client(ours.http_address), Client(theirs.management_address)
        users = []
        for client, url in zip(clients, (ours.url, theirs.url), strict=True):
            set_up(client)
            users.append(use(url))
            next(users[-1])
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for each in users:
                next(each)
            shown = clients[1].call("GET", "queues").json
            used = [each for each in shown if each["name"] in USED]
            # A quorum queue reports its figures every five seconds.
            with_dlx = [each for each in used if "message_bytes_dlx" in each]
            if with_dlx and all("message_stats" in each for each in used):
                break
            time.sleep(0.3)
        time.sleep(2)  # until RabbitMQ has taken its samples

        def asking(client: Client) -> Ask:
            def ask(path: str) -> Any:
                for each in users:
                    next(each)
                answer = client.call("GET", path)
                assert answer.status == 200, (client, path, answer)
                return answer.json

            return ask

        yield asking(clients[0]), asking(clients[1])
        for each in users:
            each.close()
    finally:
        ours.stop()
        theirs.stop()


@pytest.mark.parametrize("path", LISTS)
def test_lists_have_the_same_fields(both: tuple[Ask, Ask], path: str) -> None:
    ours, theirs = (by_name(ask(path)) for ask in both)
    found = list(differences(ours, theirs, f"/{path.partition('?')[0]}", in_list=True))
    assert found == []


@pytest.mark.parametrize("path", SINGLE)
def test_objects_have_the_same_fields(both: tuple[Ask, Ask], path: str) -> None:
    ours, theirs = both
    assert list(differences(ours(path), theirs(path), f"/{path.partition('?')[0]}")) == []


@pytest.mark.parametrize("kind", ["connections", "channels", "nodes"])
def test_whatever_has_a_name_of_its_own_has_the_same_fields(
    both: tuple[Ask, Ask], kind: str
) -> None:
    documents = []
    for ask in both:
        [name, *_] = [each["name"] for each in ask(kind)]
        documents.append(ask(f"{kind}/{quote(name, safe='')}"))
    assert list(differences(documents[0], documents[1], f"/{kind}/name")) == []
