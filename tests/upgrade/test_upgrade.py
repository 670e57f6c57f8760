"""Stores of every format are opened, and what was in them is there; others are refused."""

from pathlib import Path

import lmdb
import pytest
from conformance.brokers.arneb import run_arneb
from tests.upgrade.stores import named, observed, recorded, running, unpack

from arneb_core.store.records import pack_number
from arneb_core.store.schema import FORMAT_VERSION, META_FORMAT


def test_a_store_of_the_newest_format_is_kept() -> None:
    assert f"format-{FORMAT_VERSION}" in named()


@pytest.mark.parametrize("name", named())
def test_what_was_in_a_store_is_found_again(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    before = run_arneb("check", str(tmp_path / "data"))
    assert before.returncode == 0, before.stdout + before.stderr
    with running(tmp_path) as broker:
        assert observed(broker) == recorded(name)
    after = run_arneb("check", str(tmp_path / "data"))
    assert after.returncode == 0, after.stdout + after.stderr


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 1_000])
def test_a_store_of_a_format_that_nobody_knows_is_left_as_it_is(
    version: int, tmp_path: Path
) -> None:
    unpack(f"format-{FORMAT_VERSION}", tmp_path)
    data = tmp_path / "data"
    with lmdb.open(str(data), max_dbs=32, map_size=1 << 30) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as txn:
            assert txn.get(META_FORMAT, db=meta) == pack_number(FORMAT_VERSION)
            txn.put(META_FORMAT, pack_number(version), db=meta)
    before = (data / "arneb.journal").read_bytes()
    done = run_arneb("serve", "--data-dir", str(data), "--amqp=127.0.0.1:0", "--pulsar=off",
                     "--http=off", "--http-pulsar=off", timeout_s=30)  # fmt: skip
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"this version reads format {FORMAT_VERSION} only" in line
    assert str(version) in line
    assert (data / "arneb.journal").read_bytes() == before
