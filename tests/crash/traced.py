"""What a broker does on disk before it answers, judged by its system calls.

``python -m tests.crash.traced --load confirms --window 500 --messages 5000`` puts a broker under
``strace`` and one of :data:`.LOADS` on it. For each answer that promises something it checks what
was on disk when its write to the socket began. The message, or the queue that was declared, must
be in a completed write to the journal (which is opened so that a write returns when the data are on
disk). Or it must be in a write to LMDB's file that was followed by a completed flush, and then by a
completed write of the page that makes the transaction count, which is synchronous as well.

The rule: the verdict (:func:`judge`) is a pure function of the lines that ``strace`` wrote.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conformance.brokers.arneb import Arneb
from tests.crash.traced_loads import CONFIRMS, LOADS, MESSAGE, Load

from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.journal.writing import JOURNAL_NAME

CALLS: Final = "pwrite64,pwritev,write,writev,fdatasync,fsync,sendto"
STRING_BYTES: Final = 1 << 20
"""How much of each buffer ``strace`` shows: enough for the largest write."""

LINE: Final = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((\d+)<([^>]*)>)(.*)$")
HEX: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class PromiseBroken(Exception):
    """An answer was sent before what it promises was on disk."""


@dataclass(slots=True)
class Verdict:
    """What was seen."""

    answers: int = 0
    answered: int = 0
    """The number of messages, or queues, that were answered."""
    by_journal: int = 0
    by_lmdb: int = 0


@dataclass(slots=True)
class _Disk:
    """What is on disk according to the calls that have returned. A message for several queues has
    as many copies; it counts when all are there."""

    copies: int
    written: Counter[int] = field(default_factory=Counter)
    flushed: set[int] = field(default_factory=set)
    journal: Counter[int] = field(default_factory=Counter)
    in_journal: set[int] = field(default_factory=set)
    in_lmdb: set[int] = field(default_factory=set)

    def returned(self, call: str, path: str, is_synchronous: bool, data: bytes) -> None:
        """A call on a file has returned."""
        messages = Counter(int(each) for each in MESSAGE.findall(data))
        if path.endswith(JOURNAL_NAME):
            if is_synchronous:
                self.journal += messages
                self.in_journal |= self._whole(self.journal, messages)
        elif path.endswith(DATA_NAME):
            if call in ("fdatasync", "fsync"):
                self.flushed |= self._whole(self.written, self.written)
            elif is_synchronous:  # the page that makes a transaction count
                self.in_lmdb |= self.flushed
            else:
                self.written += messages

    def _whole(self, counts: Counter[int], numbers: Iterable[int]) -> set[int]:
        return {each for each in numbers if counts[each] >= self.copies}


def judge(
    lines: Iterable[str],
    synchronous: frozenset[int],
    messages: int,
    load: Load = CONFIRMS,
) -> Verdict:
    """Check every answer to ``load``, of which there must be some for each of ``messages``.
    ``synchronous`` are the descriptors whose writes are synchronous. Raises
    :class:`PromiseBroken`."""
    disk, verdict = _Disk(load.copies), Verdict()
    begun: dict[str, tuple[str, int, str, bytes]] = {}
    through = 0
    for line in lines:
        found = LINE.match(line)
        if found is None:
            continue
        task, resumed, call, fd, path, rest = found.groups()
        if resumed is not None:
            if task in begun:
                name, number, where, data = begun.pop(task)
                if _has_succeeded(rest):
                    disk.returned(name, where, number in synchronous, data)
            continue
        path = _bytes(path).decode(errors="replace")
        data = b"".join(map(_bytes, HEX.findall(rest)))
        if call == "sendto":
            for numbers in load.answered(data, through):
                _look(numbers, disk, verdict)
                through = max(through, numbers.stop)
        elif "<unfinished ...>" in rest:
            begun[task] = call, int(fd), path, data
        elif _has_succeeded(rest):
            disk.returned(call, path, int(fd) in synchronous, data)
    if through != messages:
        raise PromiseBroken(f"expected answers for {messages} messages, got {through}")
    return verdict


def _look(numbers: Iterable[int], disk: _Disk, verdict: Verdict) -> None:
    verdict.answers += 1
    for number in numbers:
        if number in disk.in_journal:
            verdict.by_journal += 1
        elif number in disk.in_lmdb:
            verdict.by_lmdb += 1
        else:
            raise PromiseBroken(f"message {number} was answered before it was on disk")
        verdict.answered += 1


def _bytes(shown: str) -> bytes:
    return bytes.fromhex(shown.replace("\\x", ""))


def _has_succeeded(rest: str) -> bool:
    return re.search(r"\) += \d+", rest) is not None


def traced(directory: Path, load: Load, window: int, messages: int) -> Verdict:
    """Put ``load`` on a broker, and judge what it did."""
    broker = Arneb(directory, listeners=(load.listener,)).start()
    try:
        trace = directory / "trace"
        command = ["strace", "-f", "-y", "-xx", "-s", str(STRING_BYTES), "-o", str(trace)]
        command += ["-e", f"trace={CALLS}", "-p", str(broker.pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert tracer.stderr is not None
            attached = tracer.stderr.readline()
            assert "attached" in attached, f"expected strace to begin, got {attached!r}"
            synchronous = _synchronous(broker.pid)
            load.run(broker, window, messages)
            synchronous &= _synchronous(broker.pid)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
    finally:
        broker.stop()
    with trace.open() as lines:
        return judge(lines, frozenset(synchronous), messages, load)


def _synchronous(pid: int) -> set[int]:
    """The descriptors of a process whose writes return when the data are on disk."""
    found = set()
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = each.read_text().splitlines()
        except FileNotFoundError:  # a connection that has been closed
            continue
        flags = next(line for line in lines if line.startswith("flags"))
        if int(flags.split()[1], 8) & os.O_DSYNC:
            found.add(int(each.name))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash.traced", description=__doc__)
    parser.add_argument("--load", choices=LOADS, default="confirms")
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--messages", type=int, default=500)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="arneb-traced-"))
    try:
        verdict = traced(directory, LOADS[options.load], options.window, options.messages)
    except PromiseBroken as broken:
        print(f"tests.crash.traced: {broken}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{options.load}, window {options.window}: {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
