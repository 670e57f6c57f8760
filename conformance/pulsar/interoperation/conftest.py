"""The three client libraries on one broker, and the combinations that are tested.

Each combination is run against Arneb and against Apache Pulsar (``--pulsar``).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from conformance.pulsar.conftest import BrokerUrls
from conformance.pulsar.interoperation.java import Java, java
from conformance.pulsar.interoperation.libraries import (
    Keys,
    Library,
    Receiver,
    Receiving,
    Refused,
    Sender,
    Sending,
)
from conformance.pulsar.interoperation.ours import Ours, ours
from conformance.pulsar.interoperation.wheel import Wheel, wheel
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

WAYS: Final = (("ours", "wheel"), ("wheel", "ours"), ("ours", "java"), ("java", "ours"))
"""Pairs of sender and receiver."""

OTHERS: Final = ("wheel", "java")

Libraries = dict[str, Library]


@pytest.fixture(scope="session")
def our_library(broker_urls: BrokerUrls) -> Iterator[Ours]:
    """This project's library."""
    with ours(broker_urls.pulsar) as made:
        yield made


@pytest.fixture(scope="session")
def wheel_library(broker_urls: BrokerUrls) -> Iterator[Wheel]:
    """The official Python library."""
    with wheel(broker_urls.pulsar) as made:
        yield made


@pytest.fixture(scope="session")
def java_library(broker_urls: BrokerUrls) -> Iterator[Java]:
    """The official Java library."""
    with java(broker_urls.pulsar) as made:
        yield made


@pytest.fixture
def libraries(our_library: Ours, wheel_library: Wheel, java_library: Java) -> Iterator[Libraries]:
    """All libraries by name; what a scenario has opened is closed at its end."""
    used = [UsedLibrary(each) for each in (our_library, wheel_library, java_library)]
    yield {each.name: each for each in used}
    for each in used:
        each.close_all()


class UsedLibrary:
    """A library that remembers what one scenario has opened."""

    def __init__(self, library: Library) -> None:
        self.name = library.name
        self._library = library
        self._opened: list[Sender | Receiver] = []

    def __repr__(self) -> str:
        return f"<UsedLibrary {self._library!r}, {len(self._opened)} opened>"

    def sender(self, topic: str, how: Sending) -> Sender:
        """See ``Library``."""
        made = self._library.sender(topic, how)
        self._opened.append(made)
        return made

    def receiver(self, topic: str, how: Receiving) -> Receiver:
        """See ``Library``."""
        made = self._library.receiver(topic, how)
        self._opened.append(made)
        return made

    def close_all(self) -> None:
        """Close what the scenario has not closed itself."""
        for each in self._opened:
            with suppress(Refused, ValueError):  # already closed; the wheel raises ValueError
                each.close()


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """One key pair."""
    return made_keys(tmp_path_factory.mktemp("keys"), "one")


def made_keys(directory: Path, *names: str) -> Keys:
    """A key pair for each name."""
    public, private = dict[str, str](), dict[str, str]()
    for name in names:
        key = rsa.generate_private_key(65537, 2048)
        halves = directory / f"{name}-public.pem", directory / f"{name}-private.pem"
        spki, plain = PublicFormat.SubjectPublicKeyInfo, NoEncryption()
        halves[0].write_bytes(key.public_key().public_bytes(Encoding.PEM, spki))
        halves[1].write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, plain)
        )
        public[name], private[name] = map(str, halves)
    return Keys(public, private)
