"""A broker without a cluster loads none of the cluster's code."""

import subprocess
import sys
from pathlib import Path

LISTENERS = ("--amqp", "--pulsar", "--http", "--http-pulsar")


def test_a_broker_without_a_cluster_does_not_import_it(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "arneb", "serve"]
    for each in LISTENERS:
        command += [each, "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data")]
    with (
        (tmp_path / "imported").open("w+") as imported,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=imported, text=True) as broker,
    ):
        assert broker.stdout is not None
        assert any(line == "Server startup complete\n" for line in broker.stdout)
        broker.terminate()
        assert broker.wait(20) == 0
        imported.seek(0)
        found = {line.rpartition("|")[2].strip() for line in imported}
    assert {"arneb.servers.run", "arneb_amqp.server", "arneb_pulsar.server"} <= found
    assert not {each for each in found if each.startswith(("arneb_cluster", "arneb.cluster"))} - {
        "arneb.settings.cluster"
    }
