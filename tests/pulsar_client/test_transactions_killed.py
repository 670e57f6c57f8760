"""Transactions on a broker that dies: the short form of ``make soak-transactions``."""

from pathlib import Path

import anyio
import pytest
from tests.pulsar_client import transaction_soak
from tests.pulsar_client.soak import ArnebVictim

KILLS = 1


def test_each_task_has_one_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_soak, "TASKS_PER_KILL", 50)
    soak = transaction_soak.TransactionSoak(
        ArnebVictim(tmp_path / "broker", transaction_soak.DEDUPLICATING), seed=20261122
    )
    outcome = anyio.run(soak.play, KILLS, backend="trio")
    assert "each once in both topics" in outcome
    assert soak.ended["aborted"]
