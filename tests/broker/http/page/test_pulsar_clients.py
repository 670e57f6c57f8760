"""Pulsar clients on the page: listed beside AMQP clients and closed, their transactions aborted,
and their messages read by schema."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pika
import pulsar
import pytest
import trio
from pulsar.schema import AvroSchema, Integer, Record, String

from arneb.demo.process import BrokerProcess
from arneb.http.management.page.clients import NOISY_BYTES_S, is_noisy
from arneb_pulsar.client import ProducerOptions, connect
from arneb_pulsar.client.errors import PulsarError

WITHIN_S = 20.0


class Order(Record):  # type: ignore[misc]
    """What is sent."""

    number = Integer()
    city = String()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    listeners = ["amqp", "pulsar", "http"]
    with BrokerProcess(tmp_path_factory.mktemp("store"), listeners) as found:
        yield found


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    found = pulsar.Client(broker.pulsar_url, logger=quiet)
    yield found
    found.close()


def api(broker: BrokerProcess, method: str, path: str, status: int | None = None) -> Any:
    url = f"http://{broker.addresses['http']}/api/{path}"
    answer = httpx.request(method, url, auth=("guest", "guest"))
    if status is None:
        answer.raise_for_status()
    else:
        assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


class LaterOrder(Record):  # type: ignore[misc]
    """What is sent later."""

    number = Integer()
    city = String()
    street = String(required_default=True)


def until(what: Callable[[], Any]) -> Any:
    """Wait until there is something."""
    ends_at = time.monotonic() + WITHIN_S
    while not (found := what()):
        assert time.monotonic() < ends_at, "the event did not come"
        time.sleep(0.05)
    return found


def listed(broker: BrokerProcess, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api(broker, "GET", f"page/connections?page=1{query}")["items"]
    return found


def of_pulsar(broker: BrokerProcess) -> list[dict[str, Any]]:
    return [each for each in listed(broker) if each["protocol"] == "Pulsar" and each["parts"]]


def test_both_protocols_are_in_one_list(broker: BrokerProcess, client: pulsar.Client) -> None:
    producer = client.create_producer("both")
    producer.send(b"x")
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        connection.channel()
        shown = until(lambda: len({each["protocol"] for each in listed(broker)}) == 2)
        assert shown
        by_protocol = {each["protocol"]: each for each in listed(broker, "&sort=parts")}
        assert by_protocol["AMQP 0-9-1"]["parts"] == 1
        assert by_protocol["AMQP 0-9-1"]["vhost"] == "/"
        assert by_protocol["Pulsar"]["received_bytes"] > 0
        assert by_protocol["Pulsar"]["sent_bytes"] > 0
    producer.close()


def test_an_unsortable_column_or_invalid_page_is_refused(broker: BrokerProcess) -> None:
    api(broker, "GET", "page/connections", status=400)
    api(broker, "GET", "page/connections?page=1&sort=shoe_size", status=400)


def test_a_connection_is_shown_and_closed(broker: BrokerProcess) -> None:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    mine = pulsar.Client(broker.pulsar_url, logger=quiet)
    consumer = mine.subscribe("closed", "there", consumer_name="mine")
    producer = mine.create_producer("closed", producer_name="sender")
    producer.send(b"abc")

    def find() -> Any:
        found = [api(broker, "GET", f"page/pulsar/connections/{each['number']}")
                 for each in of_pulsar(broker)]  # fmt: skip
        return [each for each in found if "mine" in [one["name"] for one in each["consumers"]]]

    (shown,) = until(find)
    (sender,) = [each for each in shown["producers"] if each["name"] == "sender"]
    assert (sender["messages"], sender["topic"]) == (1, "persistent://public/default/closed")
    assert "Pulsar" in shown["client"] or shown["client"]
    api(broker, "DELETE", f"page/pulsar/connections/{shown['number']}")
    until(lambda: all(each["number"] != shown["number"] for each in listed(broker)))
    api(broker, "GET", f"page/pulsar/connections/{shown['number']}", status=404)
    # The client reconnects by itself, and has lost nothing.
    assert consumer.receive(timeout_millis=20_000).data() == b"abc"
    mine.close()


def test_a_closed_consumer_comes_back(broker: BrokerProcess, client: pulsar.Client) -> None:
    consumer = client.subscribe("held", "s")

    def find() -> Any:
        queue = api(broker, "GET", "page/queues/%2F/held")
        return [one for each in queue["details"] for one in each["consumers"] if one["pulsar"]]

    (shown,) = until(find)
    where = shown["pulsar"]
    path = f"page/pulsar/connections/{where['connection']}/consumers"
    api(broker, "DELETE", f"{path}/{where['key'] + 1000}", status=404)
    api(broker, "DELETE", f"{path}/{where['key']}")
    again = until(lambda: [each for each in find() if each["pulsar"] != where])
    assert len(again) == 1
    consumer.close()


def test_a_user_with_fewer_rights_sees_and_closes_nothing(
    broker: BrokerProcess, client: pulsar.Client
) -> None:
    producer = client.create_producer("private")
    number = until(lambda: of_pulsar(broker))[0]["number"]
    url = f"http://{broker.addresses['http']}/api/"
    body = {"password": "p", "tags": "management"}
    httpx.put(f"{url}users/looker", auth=("guest", "guest"), json=body).raise_for_status()
    who = ("looker", "p")
    assert httpx.get(f"{url}page/connections?page=1", auth=who).json()["items"] == []
    path = f"{url}page/pulsar/connections/{number}"
    assert httpx.get(path, auth=who).status_code == 401
    assert httpx.delete(path, auth=who).status_code == 401
    body["tags"] = "monitoring"
    httpx.put(f"{url}users/looker", auth=("guest", "guest"), json=body).raise_for_status()
    assert httpx.get(path, auth=who).status_code == 200
    assert httpx.delete(path, auth=who).status_code == 401
    assert httpx.delete(f"{url}page/pulsar/transactions/1", auth=who).status_code == 401
    producer.close()


def test_an_open_transaction_is_shown_and_aborted(broker: BrokerProcess) -> None:
    async def play() -> None:
        async def asked(*call: Any) -> Any:
            return await trio.to_thread.run_sync(api, broker, *call)

        async with connect(broker.pulsar_url) as client:
            producer = await client.create_producer("in-one", ProducerOptions(transactions=True))
            transaction = await client.begin_transaction()
            await transaction.send(producer, b"x")
            (shown,) = (await asked("GET", "page/transactions"))["pulsar"]
            number = shown["number"]
            assert (shown["entries"], shown["topics"]) == (
                1,
                ["persistent://public/default/in-one"],
            )
            await asked("DELETE", f"page/pulsar/transactions/{number}")
            assert (await asked("GET", "page/transactions"))["pulsar_total"] == 0
            await asked("DELETE", f"page/pulsar/transactions/{number}", 404)
            await asked("DELETE", "page/pulsar/transactions/x", 400)
            with pytest.raises(PulsarError):
                await transaction.commit()

    trio.run(play)


def test_amqp_transactions_are_shown(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    ) as connection:
        channel = connection.channel()
        channel.queue_declare("later", durable=True)
        channel.tx_select()
        channel.basic_publish("", "later", b"x")
        connection.channel()
        (shown,) = until(lambda: [
            each for each in api(broker, "GET", "page/transactions")["amqp"] if each["messages"]
        ])  # fmt: skip
        assert (shown["messages"], shown["vhost"]) == (1, "/")


def test_a_body_is_read_by_the_schema_it_was_written_with(
    broker: BrokerProcess, client: pulsar.Client
) -> None:
    reader = client.create_reader("orders", pulsar.MessageId.earliest)
    producer = client.create_producer("orders", schema=AvroSchema(Order))
    producer.send(Order(number=7, city="Oslo"))
    producer.close()
    (shown,) = api(broker, "GET", "page/messages/%2F/orders?of=all")["messages"]
    assert shown["schema"]["type"] == "AVRO"
    assert '"city": "Oslo"' in shown["schema"]["text"]
    assert (shown["schema"]["version"], shown["schema"]["is_cut"]) == (0, False)
    producer = client.create_producer("orders", schema=AvroSchema(LaterOrder))
    producer.send(LaterOrder(number=8, city="Bergen", street="Strandgaten"))
    producer.close()
    first, then = api(broker, "GET", "page/messages/%2F/orders?of=all")["messages"]
    assert (first["schema"]["version"], "street" in first["schema"]["text"]) == (0, False)
    assert (then["schema"]["version"], '"Strandgaten"' in then["schema"]["text"]) == (1, True)
    reader.close()


def test_the_client_with_the_most_traffic_in_bytes_is_the_noisy_one() -> None:
    loud = 2 * NOISY_BYTES_S
    assert is_noisy(loud, loud + 1, 2)
    assert not is_noisy(loud, 2 * loud, 2)
    assert not is_noisy(loud, loud, 1)
    assert not is_noisy(NOISY_BYTES_S, NOISY_BYTES_S, 5)
