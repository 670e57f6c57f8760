"""Nothing is answered before what the answer promises is on disk, judged by system calls; see
:mod:`tests.crash.traced`."""

from pathlib import Path

import pytest
from conformance.wire.pulsar import Command, simple_frame
from tests.crash.traced import PromiseBroken, judge, traced
from tests.crash.traced_loads import (
    BODY,
    COMMIT_OK,
    COMMITS,
    CONFIRMS,
    DECLARES,
    MIXED,
    NAME,
    RECEIPTS,
    TRANSACTION,
    Load,
)

JOURNAL_FD, DATA_FD, META_FD = 22, 14, 15
SYNCHRONOUS = frozenset({JOURNAL_FD, META_FD})


def shown(data: bytes) -> str:
    return "".join(f"\\x{each:02x}" for each in data)


def call(name: str, fd: int, path: str, data: bytes = b"", result: str = "= 1") -> str:
    """A line of ``strace``."""
    return f'7 {name}({fd}<{shown(path.encode())}>, "{shown(data)}", 1) {result}'


def confirm(tag: int, *, multiple: bool = False) -> str:
    frame = b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50" + tag.to_bytes(8, "big") + bytes([multiple])
    return call("sendto", 26, "socket:[1]", frame + b"\xce")


def journal(*numbers: int, result: str = "= 1") -> str:
    data = b"".join(BODY % number for number in numbers)
    return call("pwrite64", JOURNAL_FD, "/d/arneb.journal", data, result)


def lmdb(number: int) -> list[str]:
    return [
        call("writev", DATA_FD, "/d/data.mdb", BODY % number),
        call("fdatasync", DATA_FD, "/d/data.mdb"),
        call("pwrite64", META_FD, "/d/data.mdb"),
    ]


def test_what_is_on_disk_may_be_confirmed() -> None:
    lines = [journal(0, 1), confirm(2, multiple=True), *lmdb(2), confirm(3)]
    verdict = judge(lines, SYNCHRONOUS, 3)
    assert (verdict.answers, verdict.by_journal, verdict.by_lmdb) == (2, 2, 1)


UNFINISHED = journal(0, result="<unfinished ...>")
RETURNED = "7 <... pwrite64 resumed>) = 1"


def test_a_write_counts_when_it_has_returned() -> None:
    assert judge([UNFINISHED, RETURNED, confirm(1)], SYNCHRONOUS, 1).by_journal == 1
    for wrong in ([UNFINISHED, confirm(1)], [UNFINISHED, confirm(1).replace("7 ", "8 "), RETURNED]):
        with pytest.raises(PromiseBroken, match="message 0"):
            judge(wrong, SYNCHRONOUS, 1)


@pytest.mark.parametrize(
    "lines",
    [
        [confirm(1), journal(0)],
        [journal(0, result="= -1 EIO (Input/output error)"), confirm(1)],
        [journal(1), confirm(1)],
        [journal(0), confirm(2, multiple=True)],
        [*lmdb(0)[:2], confirm(1)],
        [lmdb(0)[0], lmdb(0)[2], confirm(1)],
        [*lmdb(0)[1:], lmdb(0)[0], confirm(1)],
        [],
    ],
)
def test_what_is_not_on_disk_may_not(lines: list[str]) -> None:
    with pytest.raises(PromiseBroken):
        judge(lines, SYNCHRONOUS, 1)


def test_a_write_that_is_not_synchronous_does_not_count() -> None:
    with pytest.raises(PromiseBroken):
        judge([journal(0), confirm(1)], frozenset({META_FD}), 1)


def test_a_message_for_two_queues_needs_both_copies() -> None:
    assert judge([journal(0, 0), confirm(1)], SYNCHRONOUS, 1, MIXED).by_journal == 1
    assert judge([*lmdb(0)[:1], *lmdb(0), confirm(1)], SYNCHRONOUS, 1, MIXED).by_lmdb == 1
    for wrong in ([journal(0), confirm(1), journal(0)], [*lmdb(0), confirm(1)]):
        with pytest.raises(PromiseBroken, match="message 0"):
            judge(wrong, SYNCHRONOUS, 1, MIXED)


def receipts(*numbers: int) -> str:
    frames = [
        simple_frame(Command.SEND_RECEIPT, [(1, 0), (2, number), (3, [(1, 5), (2, number)])])
        for number in numbers
    ]
    return call("sendto", 26, "socket:[1]", simple_frame(Command.PONG, []) + b"".join(frames))


def test_a_receipt_of_pulsar_is_judged_as_a_confirm_is() -> None:
    verdict = judge([journal(0), *lmdb(1), receipts(0, 1)], SYNCHRONOUS, 2, RECEIPTS)
    assert (verdict.answers, verdict.by_journal, verdict.by_lmdb) == (2, 1, 1)
    for wrong in ([receipts(0), journal(0)], [journal(0), receipts(0, 1)], [journal(0)]):
        with pytest.raises(PromiseBroken):
            judge(wrong, SYNCHRONOUS, 2, RECEIPTS)


def test_a_queue_is_judged_by_its_name() -> None:
    name = NAME % 0
    declared = b"\x01\0\x01\0\0\0\x26\0\x32\0\x0b" + bytes([len(name)]) + name + b"\0" * 8
    answer = call("sendto", 26, "socket:[1]", declared + b"\xce")
    assert judge([*lmdb(0), answer], SYNCHRONOUS, 1, DECLARES).by_lmdb == 1
    with pytest.raises(PromiseBroken):
        judge([*lmdb(0)[:2], answer, lmdb(0)[2]], SYNCHRONOUS, 1, DECLARES)


def test_a_commit_is_judged_by_all_its_messages() -> None:
    answer = call("sendto", 26, "socket:[1]", COMMIT_OK)
    verdict = judge([journal(*range(TRANSACTION)), answer], SYNCHRONOUS, TRANSACTION, COMMITS)
    assert verdict.answered == verdict.by_journal == TRANSACTION
    with pytest.raises(PromiseBroken):
        judge([journal(*range(TRANSACTION - 1)), answer], SYNCHRONOUS, TRANSACTION, COMMITS)


@pytest.mark.parametrize(("window", "messages"), [(1, 200), (500, 3_000)])
@pytest.mark.parametrize("load", [CONFIRMS, MIXED, RECEIPTS])
def test_nothing_is_confirmed_before_it_is_on_disk(
    tmp_path: Path, load: Load, window: int, messages: int
) -> None:
    verdict = traced(tmp_path, load, window, messages)
    assert verdict.answered == messages
    assert verdict.by_journal, "small commits are the journal's"


@pytest.mark.parametrize("load", [DECLARES, COMMITS])
def test_no_declaration_or_transaction_is_answered_before_it_is_on_disk(
    tmp_path: Path, load: Load
) -> None:
    assert traced(tmp_path, load, 3, 100).answered == 100
