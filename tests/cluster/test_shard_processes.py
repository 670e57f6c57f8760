"""A short run of several shards on nodes that are processes; Arneb stands in Pulsar's place."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WITHIN_S = 400


def test_two_shards_serve_clients_at_any_node_through_a_hand_over_and_two_kills() -> None:
    command = [sys.executable, "-m", "conformance.cluster_demo.shards", "--service", "arneb"]
    done = subprocess.run(
        [*command, "--seconds", "1"], cwd=REPOSITORY, capture_output=True, text=True, check=False,
        timeout=WITHIN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert done.stdout.splitlines()[-1].startswith("Nothing was lost.")
