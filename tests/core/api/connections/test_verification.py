"""The same certificates are accepted on every Python."""

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import ROOT

from arneb_core.api.connections import verification
from arneb_core.api.connections.verification import make_context
from arneb_pulsar.client.connection import verification as pulsar_client

SOURCES = ("core", "amqp_frontend", "pulsar_frontend", "spark_connector", "cluster", "broker")


@pytest.mark.parametrize(
    ("make", "verifies_names"),
    [
        (make_context, True),
        (partial(make_context, ssl.Purpose.CLIENT_AUTH), False),
        (pulsar_client.make_context, True),
    ],
)
def test_no_extension_is_missed(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], ssl.SSLContext], verifies_names: bool
) -> None:
    """As on Python 3.13, whose default is strict."""
    original: Callable[..., ssl.SSLContext] = ssl.create_default_context

    def strict(*arguments: object, **options: object) -> ssl.SSLContext:
        context = original(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    context = make()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.check_hostname is verifies_names
    assert (context.verify_mode is ssl.CERT_REQUIRED) is verifies_names


def test_no_context_is_made_with_pythons_defaults() -> None:
    found = {
        file
        for root in SOURCES
        for file in (ROOT / root).rglob("*.py")
        if "ssl.create_default_context(" in file.read_text()
    }
    assert found == {Path(verification.__file__), Path(pulsar_client.__file__)}
