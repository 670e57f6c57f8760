"""A broker that dies under load, and comes back: the short form of ``make soak-client``."""

from pathlib import Path

import anyio
from tests.pulsar_client.soak import ArnebVictim, Soak

KILLS = 2


def test_a_killed_broker_loses_nothing(tmp_path: Path) -> None:
    """Nor is anything doubled, out of order, or stuck; how soon producers are back is for the long
    run to say."""
    soak = Soak(ArnebVictim(tmp_path / "broker"), seed=20261122)
    outcome = anyio.run(soak.play, KILLS, backend="trio")
    assert "each once in its topic" in outcome
    assert len(soak.back_s) == KILLS * 5
