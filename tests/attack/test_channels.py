"""Many channels that nobody uses hold next to nothing; the whole run is in :mod:`.channels`."""

from pathlib import Path

from tests.attack.channels import CHANNELS_EACH, opened
from tests.attack.running import AttackedBroker

CONNECTIONS = 10
MOST_MIB = 12
"""For 20,000 of them: a twentieth of what used ones take, and what the connections read."""


def test_channels_that_nobody_uses_take_next_to_nothing(tmp_path: Path) -> None:
    with AttackedBroker(tmp_path / "data") as broker:
        idle_mib = broker.memory_mib()
        with opened(broker, CONNECTIONS, CHANNELS_EACH):
            most_mib = broker.memory_mib() - idle_mib
        print(f"{CONNECTIONS * CHANNELS_EACH} channels: {most_mib:.0f} MiB")
        assert most_mib < MOST_MIB
