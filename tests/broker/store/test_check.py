"""``arneb check`` also examines what frontends keep in the store."""

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from arneb.cli import arneb
from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.process.waiting import durable
from arneb_core.engine.engine import open_engine
from arneb_core.store.offline_metadata import OfflineMetadata
from arneb_pulsar.services.transactions.held_records import HeldRecords
from arneb_pulsar.transactions.outcomes import ONE, Outcomes
from arneb_pulsar.transactions.records import Opened, pack

OPENED = [pack(number, Opened(1, 2, ("me", "")), 1) for number in range(1, 4)]
BROKEN = OPENED[0][:-5]


def keep(path: Path, records: list[bytes], *ended: int) -> None:
    """A store whose log of open transactions has these records; some of the transactions have
    ended."""

    async def kept() -> None:
        async with open_engine(path) as core:
            held = HeldRecords(core)
            await held.open()
            first: list[Position] = []
            for record in records:
                await durable(
                    lambda done, record=record: held.append(
                        [record], lambda error, place: (first.append(place), done(error))[1]
                    )
                )
            held.ended([first[each] for each in ended])
            await held.acknowledge_ended()
            await core.committed(Unit(metadata=[Outcomes({}).row(7, 9, committed=True)]))

    trio.run(kept)


def checked(path: Path) -> tuple[int, str]:
    result = CliRunner().invoke(arneb, ["check", str(path)])
    return result.exit_code, result.output


def test_intact_records_of_transactions_are_no_findings(tmp_path: Path) -> None:
    keep(tmp_path / "data", OPENED, 0)
    assert checked(tmp_path / "data")[0] == 0


@pytest.mark.parametrize(
    ("ended", "found"), [((), (0, 2)), ((0,), (2,)), ((2,), (0,)), ((0, 2), ()), ((1, 3), (0, 2))]
)
def test_an_unreadable_record_is_found_unless_its_transaction_has_ended(
    tmp_path: Path, ended: tuple[int, ...], found: tuple[int, ...]
) -> None:
    """Transactions do not end in the order in which they were opened."""
    keep(tmp_path / "data", [BROKEN, OPENED[0], BROKEN, OPENED[1]], *ended)
    status, output = checked(tmp_path / "data")
    assert status == (1 if found else 0)
    assert output.count("bad-frontend-record") == len(found)
    for each in found:
        assert f"bad-frontend-record: transactions, record 1:{each}: " in output


def test_an_unreadable_outcome_is_found(tmp_path: Path) -> None:
    keep(tmp_path / "data", OPENED)
    with OfflineMetadata(tmp_path / "data") as metadata:
        metadata.change([(f"{ONE}8", b"\x01")])
    status, output = checked(tmp_path / "data")
    assert status == 1
    assert f"bad-frontend-record: transactions, row '{ONE}8': " in output


def test_damaged_pages_are_the_only_finding(tmp_path: Path) -> None:
    """Nothing is read behind them."""
    path = tmp_path / "data"
    keep(path, [BROKEN])
    data = bytearray((path / "data.mdb").read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 + 10 : page * 4096 + 16] = b"\xff" * 6
    (path / "data.mdb").write_bytes(data)
    status, output = checked(path)
    assert status == 1
    assert "bad-page" in output
    assert "bad-frontend-record" not in output
