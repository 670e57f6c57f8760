"""Stands where the suite's own outermost ``conftest.py`` starts a broker in a container."""

import os
from types import SimpleNamespace

import pytest
from yarl import URL

NOBODY_LISTENS = 1
"""A port for TLS; the tests that would use it are left out."""


@pytest.fixture(scope="session")
def rabbitmq_container() -> SimpleNamespace:
    ports = {"5672/tcp": int(os.environ["RABBITMQ_5672_TCP"]), "5671/tcp": NOBODY_LISTENS}
    return SimpleNamespace(host=os.environ["RABBITMQ_HOST"], ports=ports)


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: SimpleNamespace) -> URL:
    place = f"{rabbitmq_container.host}:{rabbitmq_container.ports['5672/tcp']}"
    return URL(f"amqp://guest:guest@{place}//")
