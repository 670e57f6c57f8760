"""Stands where the suite's own outermost ``conftest.py`` starts a broker in a container."""

import os
from types import SimpleNamespace

import pytest
from yarl import URL


@pytest.fixture(scope="session")
def rabbitmq_container() -> SimpleNamespace:
    ports = {f"{port}/tcp": int(os.environ[f"RABBITMQ_{port}_TCP"]) for port in (5671, 5672)}
    return SimpleNamespace(host=os.environ["RABBITMQ_HOST"], ports=ports)


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: SimpleNamespace) -> URL:
    place = f"{rabbitmq_container.host}:{rabbitmq_container.ports['5672/tcp']}"
    return URL(f"amqp://guest:guest@{place}//")
