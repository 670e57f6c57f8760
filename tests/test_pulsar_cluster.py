"""The script that starts a cluster of Apache Pulsar: what it runs, and that it ends only that.

The cluster itself is started by ``make client-suite``. Here ``java`` is a small program of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.brokers import java_server, pulsar_cluster
from conformance.brokers.process import BrokerFailed
from conformance.brokers.pulsar_cluster import PulsarCluster

JAVA = f"""#!{sys.executable}
import os, pathlib, socket, sys, time
main = next(each for each in sys.argv if each.startswith("org.apache."))
configuration = sys.argv[-1]
if main.endswith("PulsarClusterMetadataSetup"):
    sys.exit(int(os.environ.get("SETUP_FAILS", "0")))
fields = dict(line.split("=", 1) for line in pathlib.Path(configuration).read_text().splitlines())
def listening(name):
    port = int(fields[name])
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made
if main.endswith("ZooKeeperServerMain"):
    kept = listening("clientPort")
elif main.endswith("server.Main"):
    kept = listening("bookiePort")
else:
    kept = listening("webServicePort")
    while True:
        asked, _ = kept.accept()
        asked.recv(4096)
        asked.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
        asked.close()
time.sleep(600)
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PulsarCluster:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "java").write_text(JAVA)
    (bin_ / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setattr(java_server, "classpath", lambda: "some.jar")
    return PulsarCluster(tmp_path / "cluster", brokers=2, bookies=3)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_all_of_it_is_started_and_ended_and_nothing_else(cluster: PulsarCluster) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        cluster.start()
        pids = [each.pid for each in cluster.servers]
        assert len(set(pids)) == 6
        assert cluster.resident_bytes() > 0
        cluster.stop()
        assert not any(map(is_alive, pids))
        assert other.poll() is None
    finally:
        cluster.kill()
        other.kill()
        other.wait()


def test_one_broker_is_killed_and_comes_back_where_it_was(cluster: PulsarCluster) -> None:
    try:
        cluster.start()
        broker = cluster.brokers[1]
        url, pid = broker.pulsar_url, broker.pid
        others = [each.pid for each in cluster.servers if each is not broker]
        broker.kill()
        assert not broker.running
        broker.start()
        assert (broker.pulsar_url, broker.running) == (url, True)
        assert broker.pid != pid
        assert [each.pid for each in cluster.servers if each is not broker] == others
    finally:
        cluster.kill()


def test_what_does_not_start_is_reported_with_its_last_lines_and_leaves_nothing(
    cluster: PulsarCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETUP_FAILS", "3")
    with pytest.raises(BrokerFailed, match="expected setup to end well"):
        cluster.start()
    assert not any(each.running for each in cluster.servers)


def test_a_second_cluster_does_not_take_the_data_of_the_first(cluster: PulsarCluster) -> None:
    cluster.metadata.directory.mkdir(parents=True)
    with pytest.raises(BrokerFailed, match="expected no cluster in"):
        cluster.start()


def test_a_bookie_may_be_lost() -> None:
    """Two bookies of three: with three of three the loss of one would stop every write."""
    made = PulsarCluster(Path("somewhere"))
    fields = made.brokers[0]._files["broker.conf"]
    for quorum in ("EnsembleSize", "WriteQuorum", "AckQuorum"):
        assert fields[f"managedLedgerDefault{quorum}"] == 2
    assert len(made.bookies) == 3


def test_lines_of_the_command_are_obeyed(cluster: PulsarCluster) -> None:
    try:
        cluster.start()
        assert pulsar_cluster._obey(cluster, "kill broker-2\n") == "broker-2 was killed"
        assert "broker-1 runs, broker-2 is down" in pulsar_cluster._obey(cluster, "status")
        assert "is ready after" in pulsar_cluster._obey(cluster, "start broker-2")
        assert "expected status" in pulsar_cluster._obey(cluster, "dance")
        with pytest.raises(BrokerFailed, match="expected one of zookeeper"):
            pulsar_cluster._obey(cluster, "kill broker-9")
    finally:
        cluster.kill()
