"""Batches larger than a commit should be: others get their turns while they are written."""

from pathlib import Path

import pytest
from tests.broker.data.kit import body_of, served, values

from arneb_core.engine.group_commit.write_ahead import SLICE_BYTES, UNIT_BYTES_MIN
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport

pytestmark = pytest.mark.real_time

A = "persistent://public/default/a"
VALUE = bytes(64 * 1024)


async def test_no_commit_has_more_than_a_slice_of_a_large_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    original = Store.commit

    def commit(self: Store, changes: Changes) -> CommitReport:
        sizes.append(sum(len(each) for _, _, entries in changes.blocks for each in entries))
        return original(self, changes)

    rows = 2 * UNIT_BYTES_MIN // len(VALUE)
    async with served(tmp_path) as here:
        for piece in range(4):
            body = body_of([VALUE] * (rows // 4), [{"topic": A}])
            where = {"query": "q", "batch": 1, "stage": "s", "piece": piece}
            await here.ask("POST", "/stages", parameters=where, rows=body)
        monkeypatch.setattr(Store, "commit", commit)
        wanted = [{"stage": "s", "pieces": 4, "rows": rows}]
        document = {"query": "q", "batch": 1, "stages": wanted}
        assert (await here.ask("POST", "/commits", body=document))["rows"] == rows
        assert max(sizes) <= SLICE_BYTES + 2 * len(VALUE)
        assert sum(sizes) >= rows * len(VALUE)
        found = await values(here.engine, A)
        assert len(found) == rows
        assert set(found) == {VALUE}
