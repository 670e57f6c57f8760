"""If the receipt for a message of a transaction is lost, the client sends it again within the same
transaction. With deduplication it is stored once, and without it twice, on either broker."""

from pathlib import Path

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import free_port
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.clients.programs import HERE, RUN_WITHIN_S, built_in_java
from conformance.pulsar.conftest import TRANSACTING
from conformance.pulsar.helpers import WITHIN_MS
from conformance.pulsar.losing import MARK, losing
from conformance.toolbox import finished

SILENCE_MS = 3_000


@pytest.mark.parametrize("broker_name", ["arneb", "pulsar"])
@pytest.mark.parametrize(("deduplicates", "copies"), [(True, 1), (False, 2)])
def test_sent_again(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    broker_name: str,
    deduplicates: bool,
    copies: int,
) -> None:
    if broker_name not in (request.config.getoption("pulsar") or ["arneb", "pulsar"]):
        pytest.skip("not selected by --pulsar")
    advertised = free_port()
    url = f"pulsar://127.0.0.1:{advertised}"
    broker, own = made(broker_name, tmp_path, url, deduplicates)
    try:
        with losing(advertised, ("127.0.0.1", own)) as proxy:
            # the broker may use its advertised address itself, so the proxy is there first
            broker.start()
            topic = "persistent://public/default/sent-again"
            quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            command = [*built_in_java("LostReceipt"), url, topic, MARK.decode()]
            assert "committed" in finished(command, HERE, RUN_WITHIN_S)
            assert (proxy.seen, proxy.lost) == (2, 1)
            client = pulsar.Client(url, logger=quiet)
            earliest = pulsar.InitialPosition.Earliest
            consumer = client.subscribe(topic, "s", initial_position=earliest)
            for _ in range(copies):
                assert consumer.receive(WITHIN_MS).data() == MARK
            with pytest.raises(pulsar.Timeout):
                consumer.receive(SILENCE_MS)
            client.close()
    finally:
        broker.stop()


def made(
    name: str, place: Path, url: str, deduplicates: bool
) -> tuple[Arneb | PulsarStandalone, int]:
    """A broker that advertises ``url``, and the port at which it really listens."""
    truth = str(deduplicates).lower()
    if name == "arneb":
        settings = f'[pulsar]\nadvertised_url = "{url}"\nbrokerDeduplicationEnabled = {truth}\n'
        port = free_port()
        ports = {"pulsar": port}
        return Arneb(place, listeners=["pulsar"], ports=ports, settings=settings), port
    apache = PulsarStandalone(
        place,
        advertisedListeners=f"proxy:{url}",
        internalListenerName="proxy",
        brokerDeduplicationEnabled=truth,
        **TRANSACTING,
    )
    return apache, int(apache.pulsar_url.rpartition(":")[2])
