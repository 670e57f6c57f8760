"""The two brokers that programs are played on."""

from collections.abc import Iterator

import pytest
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.conftest import arneb_of

Both = tuple[Address, Address]


@pytest.fixture(scope="session")
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """The addresses of RabbitMQ and Arneb."""
    rabbitmq = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    arneb = arneb_of(request.config, tmp_path_factory.mktemp("arneb"))
    try:
        yield rabbitmq.start().address, arneb.start().address
    finally:
        arneb.kill()
        rabbitmq.kill()
