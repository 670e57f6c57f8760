"""``pulsar-perf transaction``, with which operators measure consuming, producing and committing."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.java_server import classpath
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import numbers, send
from conformance.toolbox import own_environment, tool

HERE = Path(__file__).parent
RUN_WITHIN_S = 240
TRANSACTIONS = 100
PRODUCED = 10
"""Messages produced in each transaction; one is consumed."""

COUNTS = re.compile(
    r"(\d+) transaction executed .* (\d+) transaction open failed .* (\d+) transaction end failed "
    r".* (\d+) message ack failed .* (\d+) message send failed .* (\d+) message ack success "
    r".* (\d+) message send success"
)


@pytest.fixture(scope="module", params=["arneb", "pulsar"])
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The Pulsar and HTTP URLs of a broker with transactions enabled."""
    if request.param not in (request.config.getoption("pulsar") or ["arneb", "pulsar"]):
        pytest.skip("not selected by --pulsar")
    place = tmp_path_factory.mktemp(request.param)
    if request.param == "pulsar":
        apache = PulsarStandalone(
            place, transactionCoordinatorEnabled="true", systemTopicEnabled="true"
        ).start()
        yield apache.pulsar_url, apache.http_url
        apache.stop()
    else:
        broker = Arneb(place, listeners=["pulsar", "http-pulsar"]).start()
        yield broker.pulsar_url, broker.admin_url
        broker.stop()


def test_the_tool_measures_transactions(urls: tuple[str, str], tmp_path: Path, name: Named) -> None:
    url, http_url = urls
    consumed, produced = name("consumed"), name("produced")
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    shared = pulsar.ConsumerType.Shared
    client.subscribe(consumed, "sub", shared).close()
    kept = client.subscribe(produced, "keeps it", shared)
    send(client.create_producer(consumed), numbers(3 * TRANSACTIONS))
    settings = tmp_path / "client.conf"
    settings.write_text(f"brokerServiceUrl={url}\nwebServiceUrl={http_url}\n")
    main = ["org.apache.pulsar.testclient.PulsarPerfTestTool", str(settings), "transaction"]
    asked = ["--topics-c", consumed, "--topics-p", produced, "-ss", "sub", "-st", "Shared"]
    asked += ["-threads", "1", "-ntxn", str(TRANSACTIONS), "-nmp", str(PRODUCED), "-nmc", "1"]
    java = tool("java", "default-jdk-headless")
    jars = classpath(HERE / "perf" / "pom.xml")
    ran = subprocess.run(
        [java, "-Xmx512m", "-cp", jars, *main, *asked],
        cwd=tmp_path,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
    counts = COUNTS.search(ran.stdout)
    assert counts is not None, ran.stdout[-3000:]
    executed, *failed, acked, sent = map(int, counts.groups())
    assert failed == [0, 0, 0, 0]
    assert executed >= TRANSACTIONS
    assert acked >= TRANSACTIONS
    # The tool stops when it has enough, so the messages of its last transaction may be missing.
    for _ in range(TRANSACTIONS * PRODUCED):
        kept.acknowledge(kept.receive(30_000))
    assert sent >= TRANSACTIONS * PRODUCED
    client.close()
