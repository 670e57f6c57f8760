"""Many channels take almost no memory until they publish or consume; :mod:`.channels` is the whole
run."""

from pathlib import Path

import pytest
from tests.attack.channels import CHANNELS_EACH, opened
from tests.attack.running import AttackedBroker

CONNECTIONS = 10


@pytest.mark.parametrize(("used", "most_mib"), [(False, 6), (True, 10)], ids=["unused", "used"])
def test_channels_that_carry_nothing_take_next_to_nothing(
    tmp_path: Path, used: bool, most_mib: int
) -> None:
    """With 20,000 channels: a twentieth or a quarter of the memory that they take once they have
    everything they may need, plus the connections' read buffers."""
    with AttackedBroker(tmp_path / "data") as broker:
        idle_mib = broker.memory_mib()
        with opened(broker, CONNECTIONS, CHANNELS_EACH, used=used):
            held_mib = broker.memory_mib() - idle_mib
        print(f"{CONNECTIONS * CHANNELS_EACH} channels: {held_mib:.0f} MiB")
        assert held_mib < most_mib
