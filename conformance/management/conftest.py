"""RabbitMQ with its management plugin, and Arneb beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.client import Client

PLUGINS: Final = (
    "rabbitmq_event_exchange", "rabbitmq_shovel", "rabbitmq_shovel_management",
    "rabbitmq_federation", "rabbitmq_federation_management",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Managed:
    """One broker with its management API."""

    name: str
    process: Any
    amqp: Address
    http: Address

    @property
    def api(self) -> Client:
        """A client of the API that logs in as administrator."""
        return Client(self.http)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Managed, Managed]]:
    """Arneb and RabbitMQ, in this order."""
    if not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    directory = tmp_path_factory.mktemp("rabbitmq")
    theirs = RabbitMQ(directory, management=True, plugins=PLUGINS).start()
    try:
        assert theirs.management_address is not None
        settings = '[amqp]\nevent_exchange_vhost = "/"\n'
        ours = Arneb(tmp_path_factory.mktemp("arneb"), settings=settings)
        ours.start()
        try:
            yield (
                Managed("arneb", ours, ours.address, ours.http_address),
                Managed("rabbitmq", theirs, theirs.address, theirs.management_address),
            )
        finally:
            ours.stop()
    finally:
        theirs.stop()
