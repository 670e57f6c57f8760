"""A Pulsar broker, clients of the official wheel, and names for the Pulsar scenarios.

A broker that runs elsewhere is named by ``ARNEB_PULSAR_URL``; otherwise one is started for the
session, on a free loopback port and throw-away data.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pulsar
import pytest
from conformance.brokers.arneb import Arneb

_numbers = itertools.count(1)

Connect = Callable[..., pulsar.Client]
Named = Callable[[str], str]


@pytest.fixture(scope="session")
def pulsar_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker is."""
    if url := os.environ.get("ARNEB_PULSAR_URL"):
        yield url
        return
    broker = Arneb(tmp_path_factory.mktemp("arneb"), listeners=["pulsar"])
    try:
        yield broker.start().pulsar_url
    finally:
        broker.stop()


@pytest.fixture
def connect(pulsar_url: str) -> Iterator[Connect]:
    """Opens clients; all are closed at the end."""
    opened: list[pulsar.Client] = []
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)

    def open_client(**options: Any) -> pulsar.Client:
        options = {"operation_timeout_seconds": 5, "logger": quiet} | options
        opened.append(pulsar.Client(pulsar_url, **options))
        return opened[-1]

    yield open_client
    for client in opened:
        with suppress(pulsar.AlreadyClosed):  # the scenario may have closed it
            client.close()


@pytest.fixture
def client(connect: Connect) -> pulsar.Client:
    """A client with a connection of its own."""
    return connect()


@pytest.fixture
def name() -> Named:
    """Makes names that no other scenario uses, and no other run against the same broker."""

    def make(kind: str) -> str:
        return f"{kind}-{os.getpid()}-{next(_numbers)}"

    return make


@pytest.fixture
def topic(name: Named) -> str:
    """A topic that is not there yet."""
    return f"persistent://public/default/{name('topic')}"
