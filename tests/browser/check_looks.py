"""How every page looks: nothing that axe objects to, and a picture of each for whoever reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import pika
import pulsar
import pytest
from playwright.sync_api import Browser
from pulsar.schema import AvroSchema, Float, Record, String
from tests.browser.operator import (
    DESKTOP,
    PHONE,
    REPOSITORY,
    chromium,
    fetch_axe,
    operator,
    url_of,
)

from arneb.demo.process import BrokerProcess

PICTURES: Final = REPOSITORY / "build/page"
"""What ``make soak-page`` leaves behind."""

PAGES: Final = {
    "overview": "#/",
    "queues": "#/queues",
    "queue": "#/queues/%2F/orders",
    "subscriptions": "#/queues/%2F/orders/subscriptions",
    "messages": "#/queues/%2F/orders/messages",
    "bindings": "#/queues/%2F/orders/bindings",
    "publish": "#/queues/%2F/orders/publish",
    "schema": "#/queues/%2F/readings/messages",
    "topic": "#/topics/persistent%3A%2F%2Felsewhere%2Fplace%2Flog",
    "exchanges": "#/exchanges",
    "exchange": "#/exchanges/%2F/shop",
    "connections": "#/connections",
    "pulsar-connection": "#/pulsar-connections/1",
    "channels": "#/channels",
    "transactions": "#/transactions",
    "delayed": "#/delayed",
    "trace": "#/trace",
    "users": "#/users",
    "vhosts": "#/vhosts",
    "policies": "#/policies",
    "operator-policies": "#/operator-policies",
    "definitions": "#/definitions",
}

LOOKS: Final = [("light", DESKTOP), ("dark", DESKTOP), ("light", PHONE)]

SETTLED_MS: Final = 1200
"""Until there is a second figure."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    fetch_axe()
    with chromium() as found:
        yield found


class Reading(Record):  # type: ignore[misc]
    """What a thermometer sends."""

    place = String()
    celsius = Float()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with something to show."""
    listeners = ["amqp", "pulsar", "http", "http-pulsar"]
    with BrokerProcess(tmp_path_factory.mktemp("store"), listeners) as broker:
        where = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
        with of_pulsar(broker), pika.BlockingConnection(where) as connection:
            channel = connection.channel()
            channel.exchange_declare("shop", "topic", durable=True)
            delays = {"x-delayed-type": "topic"}
            channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=delays)
            for name, key in (("orders", "order.#"), ("emails", "*.created")):
                channel.queue_declare(name, durable=True)
                channel.queue_bind(name, "shop", key)
            for number in range(50):
                body = f'{{"order": {number}}}'.encode()
                channel.basic_publish("shop", "order.created", body)
                delayed = pika.BasicProperties(headers={"x-delay": 3_600_000 + number})
                channel.basic_publish("later", "order.late", body, delayed)
            channel.basic_qos(prefetch_count=10)
            channel.basic_consume("orders", lambda *_: None)
            channel.tx_select()
            connection.process_data_events(0.2)
            rule = {"pattern": "^orders$", "definition": {"max-length": 100_000}}
            for kind in ("policies", "operator-policies"):
                path = f"{url_of(broker)}api/{kind}/%2F/bounded"
                body = {**rule, "apply-to": "queues"}
                httpx.put(path, auth=("guest", "guest"), json=body).raise_for_status()
            yield url_of(broker)


@contextmanager
def of_pulsar(broker: BrokerProcess) -> Iterator[None]:
    """Clients of Pulsar's, a schema, and a topic in a namespace of its own."""
    admin = f"http://{broker.addresses['http-pulsar']}/admin/v2"
    httpx.put(f"{admin}/tenants/elsewhere", json={"allowedClusters": ["standalone"]})
    httpx.put(f"{admin}/namespaces/elsewhere/place").raise_for_status()
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.pulsar_url, logger=quiet)
    consumer = client.subscribe("readings", "watch", pulsar.ConsumerType.Shared)
    producer = client.create_producer("readings", schema=AvroSchema(Reading))
    for number in range(3):
        producer.send(Reading(place="Köln", celsius=20.5 + number))
    log = client.subscribe("persistent://elsewhere/place/log", "audit")
    client.create_producer("persistent://elsewhere/place/log").send(b"seen")
    yield
    for each in (consumer, log):
        each.close()
    client.close()


@pytest.mark.parametrize(("theme", "size"), LOOKS)
def test_nothing_is_found_wrong_with_any_page(
    browser: Browser, url: str, theme: str, size: dict[str, int]
) -> None:
    folder: Path = PICTURES / f"{theme}-{size['width']}"
    folder.mkdir(parents=True, exist_ok=True)
    with operator(browser, url, theme=theme, size=size) as somebody:
        somebody.page.goto(url)
        somebody.page.get_by_label("User").wait_for()
        somebody.page.screenshot(path=folder / "login.png")
        found = {"login": somebody.violations()}
        somebody.log_in()
        for name, hash_ in PAGES.items():
            somebody.go(hash_)
            somebody.page.wait_for_timeout(SETTLED_MS)
            somebody.page.screenshot(path=folder / f"{name}.png", full_page=size is PHONE)
            found[name] = somebody.violations()
            wide = somebody.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{name} is {wide} pixels wider than the screen"
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


DIALOGS: Final = (
    ("#/queues", "New queue"),
    ("#/queues/%2F/orders", "Purge"),
    ("#/queues/%2F/orders", "Delete"),
    ("#/exchanges", "New exchange"),
    ("#/connections/{connection}", "Close"),
    ("#/users", "New user"),
    ("#/users", "New permission"),
    ("#/users", "New topic permission"),
    ("#/users", "Limits of guest"),
    ("#/vhosts", "New virtual host"),
    ("#/vhosts", "Limits of /"),
    ("#/policies", "New policy"),
    ("#/operator-policies", "New policy"),
)
"""Where they are opened, and by which button."""

OF_MESSAGES: Final = ("Move", "Copy", "Publish again")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_found_wrong_with_any_dialog(browser: Browser, url: str, theme: str) -> None:
    found = {}
    with operator(browser, url, theme=theme) as somebody:
        somebody.log_in()
        [each] = httpx.get(f"{url}api/connections", auth=("guest", "guest")).json()
        name = quote(each["name"], safe="")

        def open_and_close(title: str, where: str) -> None:
            somebody.press(title)
            somebody.page.locator("dialog[open]").wait_for()
            found[f"{title} at {where}"] = somebody.violations()
            somebody.page.keyboard.press("Escape")
            somebody.page.locator("dialog[open]").wait_for(state="detached")

        for where, title in DIALOGS:
            somebody.go(where.format(connection=name))
            open_and_close(title, where)
        somebody.go("#/queues/%2F/emails/messages")
        somebody.page.get_by_role("checkbox").first.check()
        for title in OF_MESSAGES:
            open_and_close(title, "messages")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
