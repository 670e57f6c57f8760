"""The demo's publisher: it counts what was confirmed, reports what was not and why, and closes."""

import gc
import warnings
from collections.abc import Iterator

import pytest
from conformance.brokers.process import free_port

from arneb.demo.orders import Order
from arneb.demo.process import BrokerProcess
from arneb.demo.publisher import OUTSTANDING_MAX, Publisher, PublishFailed

ORDERS = 3 * OUTSTANDING_MAX + 7
REFUSING = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("demo") / "data", listeners=["amqp"]) as running:
        yield running


def publisher(port: int, arguments: dict[str, object] | None = None) -> Publisher:
    return Publisher(port, map(Order, range(ORDERS)), lambda: None, arguments)


def test_everything_is_confirmed_and_no_socket_stays_open(broker: BrokerProcess) -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        assert publisher(broker.amqp_port).run() == ORDERS
        gc.collect()
    assert not [str(each.message) for each in left]


def test_what_the_broker_refuses_is_reported(broker: BrokerProcess) -> None:
    with pytest.raises(PublishFailed, match=r"messages are not confirmed: .*got Basic\.Nack"):
        publisher(broker.amqp_port, REFUSING).run()


def test_a_broker_that_disappears_is_reported(broker: BrokerProcess) -> None:
    orders = map(Order, range(ORDERS))
    with pytest.raises(PublishFailed, match="messages are not confirmed: "):
        Publisher(broker.amqp_port, orders, broker.kill).run()


def test_a_port_where_nobody_listens_is_reported() -> None:
    with pytest.raises(PublishFailed, match=f"{ORDERS} messages are not confirmed: "):
        publisher(free_port()).run()
