"""How every page looks: nothing that axe objects to, and a picture of each for whoever reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pika
import pytest
from playwright.sync_api import Browser
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
    "exchanges": "#/exchanges",
    "exchange": "#/exchanges/%2F/shop",
    "connections": "#/connections",
    "channels": "#/channels",
    "transactions": "#/transactions",
    "delayed": "#/delayed",
    "trace": "#/trace",
    "users": "#/users",
    "vhosts": "#/vhosts",
    "policies": "#/policies",
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


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with something to show."""
    with BrokerProcess(tmp_path_factory.mktemp("store"), ["amqp", "http"]) as broker:
        where = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
        with pika.BlockingConnection(where) as connection:
            channel = connection.channel()
            channel.exchange_declare("shop", "topic", durable=True)
            for name, key in (("orders", "order.#"), ("emails", "*.created")):
                channel.queue_declare(name, durable=True)
                channel.queue_bind(name, "shop", key)
            for number in range(50):
                body = f'{{"order": {number}}}'.encode()
                channel.basic_publish("shop", "order.created", body)
            channel.basic_qos(prefetch_count=10)
            channel.basic_consume("orders", lambda *_: None)
            channel.tx_select()
            connection.process_data_events(0.2)
            yield url_of(broker)


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
