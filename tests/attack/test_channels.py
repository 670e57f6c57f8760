"""Many channels hold next to nothing until they publish or consume; the whole run is in
:mod:`.channels`."""

from pathlib import Path

import pytest
from tests.attack.channels import CHANNELS_EACH, opened
from tests.attack.running import AttackedBroker

CONNECTIONS = 10


@pytest.mark.parametrize(("used", "most_mib"), [(False, 6), (True, 10)], ids=["unused", "used"])
def test_channels_that_carry_nothing_take_next_to_nothing(
    tmp_path: Path, used: bool, most_mib: int
) -> None:
    """Of 20,000: a twentieth or a quarter of what they take with all that they may need, and what
    the connections read."""
    with AttackedBroker(tmp_path / "data") as broker:
        idle_mib = broker.memory_mib()
        with opened(broker, CONNECTIONS, CHANNELS_EACH, used=used):
            held_mib = broker.memory_mib() - idle_mib
        print(f"{CONNECTIONS * CHANNELS_EACH} channels: {held_mib:.0f} MiB")
        assert held_mib < most_mib
