"""Clusters and brokers: one of each, and what tools ask about them."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker

ROOT = "/admin/v2/"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("configuration/values", {}), ("ready", b"ok"), ("health", b"ok")],
)
async def test_what_could_be_changed(open_broker: OpenBroker, path: str, expected: Any) -> None:
    async with open_broker() as running:
        assert await Admin(running)("GET", f"{ROOT}brokers/{path}") == (200, expected)


async def test_settings_are_shown_by_their_names_in_pulsar(open_broker: OpenBroker) -> None:
    async with open_broker(message_bytes_max=2048, deduplication=True) as running:
        admin = Admin(running)
        status, found = await admin("GET", f"{ROOT}brokers/configuration/runtime")
        assert status == 200
        assert all(isinstance(value, str) for value in found.values())
        assert found["maxMessageSize"] == "2048"
        assert found["brokerDeduplicationEnabled"] == "true"
        status, found = await admin("GET", f"{ROOT}brokers/internal-configuration")
        assert (status, found["metadataStoreUrl"]) == (200, "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "cluster data is required"),
        ([], "expected a JSON object"),
        ({"serviceUrl": "x"}, "Illegal service url"),
        ({"serviceUrlTls": "http://127.0.0.1:1"}, "Illegal service tls url"),
        ({"brokerServiceUrl": "PULSAR://127.0.0.1:1"}, "Illegal broker service url"),
        ({"brokerServiceUrlTls": 7}, "Illegal broker service tls url"),
        ({"serviceUrl": []}, "expected text"),
        ({"proxyServiceUrl": "http://127.0.0.1:1"}, "Illegal proxy service url, example: pulsar+"),
        ({"brokerClientTlsEnabled": "x"}, "expected true or false"),
    ],
)
async def test_a_cluster_has_addresses(open_broker: OpenBroker, body: Any, words: str) -> None:
    async with open_broker() as running:
        status, answer = await Admin(running)("PUT", f"{ROOT}clusters/c", body)
        assert (status, words in answer["reason"]) == (400, True)


async def test_what_was_said_of_a_cluster_is_shown(open_broker: OpenBroker) -> None:
    cluster_data: dict[str, Any] = {"serviceUrl": "", "brokerServiceUrl": "pulsar://h:1"}
    cluster_data |= {"brokerClientTlsKeyStoreType": "PKCS12", "proxyServiceUrl": "pulsar+ssl://h:2"}
    cluster_data |= {
        "proxyProtocol": "SNI",
        "listenerName": "outside",
        "tlsAllowInsecureConnection": True,
    }
    secret = {"authenticationParameters": "token", "brokerClientTlsKeyStorePassword": "word"}
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", f"{ROOT}clusters/c", cluster_data | secret))[0] == 200
        _, shown = await admin("GET", f"{ROOT}clusters/c")
        assert {name: it for name, it in shown.items() if it is not False} == cluster_data
