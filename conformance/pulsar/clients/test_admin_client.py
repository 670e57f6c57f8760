"""Pulsar's own admin client for Java, against Apache Pulsar and Arneb.

It is one source file, run directly with the jars that the standalone broker needs anyway.
"""

from pathlib import Path

import pytest
from conformance.brokers.java_server import classpath
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.clients.test_clients import finished, tool
from conformance.pulsar.conftest import BrokerUrls

HERE = Path(__file__).parent / "admin"
RUN_WITHIN_S = 600.0


def test_what_an_operator_does_all_day(broker_urls: BrokerUrls) -> None:
    if not broker_urls.admin:
        pytest.skip("ARNEB_ADMIN_URL is not set")
    if not PulsarStandalone.installed():
        pytest.fail("the admin client needs java and mvn: make client-tools")
    java = tool("java", "default-jdk-headless")
    command = [java, "-Xmx256m", "-cp", classpath(), "Administration.java"]
    print(finished([*command, broker_urls.admin, broker_urls.pulsar], HERE, RUN_WITHIN_S))
