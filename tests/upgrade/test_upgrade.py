"""Stores of every format are opened, and what was in them is there; others are refused."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import lmdb
import pytest
from conformance.brokers.arneb import run_arneb
from hypothesis import given
from hypothesis import strategies as st
from tests.upgrade.stores import (
    LAST_WORDS,
    journaled,
    kill_after_last_words,
    named,
    observed,
    recorded,
    running,
    state_of,
    unpack,
)

from arneb_core.store.format.records import JournalState, pack_number
from arneb_core.store.format.schema import FORMAT_VERSION, META_FORMAT
from arneb_core.store.journal.file import JOURNAL_BYTES_BEFORE, FaultKind, parse_journal
from arneb_core.store.journal.writing import JOURNAL_BYTES, JOURNAL_NAME


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


TODAYS: Final = "format-4-journal-blocks"

SIZES: Final = {
    "format-4-journal-1-mib": JOURNAL_BYTES_BEFORE,
    "format-4-journal-4-mib": JOURNAL_BYTES,
    TODAYS: JOURNAL_BYTES,
}
"""Stores whose journals have what LMDB lacks."""

SOME: Final = 3
LOST: Final = LAST_WORDS - 3
"""Of the last words, in a journal that is damaged."""


@pytest.mark.parametrize("name", SIZES)
def test_what_only_the_journal_has_is_among_it(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    found = journaled(tmp_path)
    assert len(found.data) == SIZES[name]
    assert len(found.records) > SOME
    assert not found.faults
    assert found.is_sound is (name == TODAYS)  # nobody writes on one of the layout before
    last = recorded(name)["queues"]["orders"][-1]["body"]
    assert last == f"last word {LAST_WORDS - 1}"


def test_a_journal_of_the_previous_size_is_rewritten_once(tmp_path: Path) -> None:
    unpack("format-4-journal-1-mib", tmp_path)
    path = tmp_path / "data" / JOURNAL_NAME
    with running(tmp_path) as broker:
        kill_after_last_words(broker)
    assert path.stat().st_size == JOURNAL_BYTES
    assert journaled(tmp_path).is_sound
    checked = run_arneb("check", str(tmp_path / "data"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with running(tmp_path) as broker:
        bodies = [each["body"] for each in observed(broker)["queues"]["orders"]]
    words = [f"last word {number}" for number in range(LAST_WORDS)]
    assert bodies[-2 * LAST_WORDS :] == words * 2


DAMAGES: Final = st.lists(
    st.tuples(
        st.sampled_from(["flip", "zero", "cut"]),
        st.integers(0, 64 * 1024),  # where the records of the kept store are, and a little behind
        st.integers(1, 4096),
    ),
    min_size=1,
    max_size=3,
)


@given(DAMAGES)
def test_damage_is_found_in_a_journal_of_the_size_before_as_in_one_of_today(
    damages: list[tuple[str, int, int]],
) -> None:
    data, state = journal_before()
    damaged = bytearray(data)
    for kind, at, length in damages:
        part = slice(at, at + length)
        if kind == "flip":
            damaged[at] ^= 1 + length % 255
        elif kind == "zero":
            damaged[part] = bytes(len(damaged[part]))
        else:
            damaged[at:] = bytes(len(damaged) - at)
    before = parse_journal(bytes(damaged), state)
    today = parse_journal(bytes(damaged).ljust(JOURNAL_BYTES, b"\0"), state)
    assert before.records == today.records
    assert before.faults == today.faults
    assert before.end == today.end
    assert not before.is_sound  # it is rewritten in any case
    if len(before.records) < len(parse_journal(data, state).records):
        assert before.faults, "what was confirmed is missing, and nobody is told"


@pytest.mark.parametrize("left", [0, 4096, JOURNAL_BYTES_BEFORE - 1, JOURNAL_BYTES_BEFORE + 1])
def test_a_journal_of_a_size_that_none_ever_had_is_damaged(left: int) -> None:
    data, state = journal_before()
    found = parse_journal(data.ljust(left, b"\0")[:left], state)
    assert FaultKind.SHORT in [each.kind for each in found.faults]


@cache
def journal_before() -> tuple[bytes, JournalState]:
    """The kept one of 1 MiB, and what LMDB knows of it."""
    with tempfile.TemporaryDirectory() as directory:
        unpack("format-4-journal-1-mib", Path(directory))
        return journaled(Path(directory)).data, state_of(Path(directory))


def test_a_damaged_journal_of_the_previous_size_is_kept_aside_and_reported(tmp_path: Path) -> None:
    unpack("format-4-journal-1-mib", tmp_path)
    path, state = tmp_path / "data" / JOURNAL_NAME, state_of(tmp_path)
    records = journaled(tmp_path).records
    damaged = bytearray(path.read_bytes())
    damaged[damaged.find(b"last word %d" % LOST)] ^= 1
    path.write_bytes(damaged)
    checked = run_arneb("check", str(tmp_path / "data"))
    assert checked.returncode == 1
    assert "journal" in checked.stdout + checked.stderr
    with running(tmp_path) as broker:
        bodies = [each["body"] for each in observed(broker)["queues"]["orders"]]
    words = {f"last word {number}" for number in range(LAST_WORDS)}
    assert words - set(bodies) == {f"last word {LOST}"}
    kept = tmp_path / "data" / f"{JOURNAL_NAME}.damaged-1"
    assert kept.stat().st_size == JOURNAL_BYTES_BEFORE
    assert path.stat().st_size == JOURNAL_BYTES
    assert len(parse_journal(kept.read_bytes(), state).records) == len(records) - 1


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 1_000])
def test_a_store_of_an_unknown_format_is_left_as_it_is(version: int, tmp_path: Path) -> None:
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
