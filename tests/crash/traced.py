"""What a broker does on disk before it confirms, judged by its system calls.

``python -m tests.crash.traced --window 500 --messages 5000`` publishes persistent messages to a
broker under ``strace``; with ``--mixed`` as applications do: mandatory, each with properties of its
own, through a topic exchange with many keys into two queues; with ``--pulsar`` over Pulsar's
protocol. For each confirm, or receipt, it checks what was on disk when its write to the socket
began. The message must be in a completed write to
the journal (which is opened so that a write returns when the data are on disk). Or it must be in a
write to LMDB's file that was followed by a completed flush, and then by a completed write of the
page that makes the transaction count, which is synchronous as well.

The rule: the verdict (:func:`judge`) is a pure function of the lines that ``strace`` wrote.
"""

import argparse
import asyncio
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pika
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address
from conformance.wire.protobuf import data_of, decode, integer
from conformance.wire.pulsar import Command, PulsarClient

from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.journal.writing import JOURNAL_NAME

CALLS: Final = "pwrite64,pwritev,write,writev,fdatasync,fsync,sendto"
STRING_BYTES: Final = 1 << 20
"""How much of each buffer ``strace`` shows: enough for the largest write."""

POLL_S: Final = 0.001
"""How long pika waits for events each time."""

QUEUES: Final = ("traced", "traced-too")
EXCHANGE: Final = "traced"
KEYS: Final = 50
TOPIC: Final = "persistent://public/default/traced"
BODY: Final = b"message %08d of the trace" + b"." * 200
MESSAGE: Final = re.compile(rb"message (\d{8}) of the trace")
CONFIRM: Final = re.compile(rb"\x01..\x00\x00\x00\x0d\x00\x3c\x00\x50(.{8})(.)\xce", re.DOTALL)
"""A whole frame of basic.ack."""

SIZES: Final = struct.Struct(">II")
"""Of a frame of Pulsar's and of its command."""

LINE: Final = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((\d+)<([^>]*)>)(.*)$")
HEX: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class PromiseBroken(Exception):
    """A confirm was sent before its message was on disk."""


@dataclass(slots=True)
class Verdict:
    """What was seen."""

    confirms: int = 0
    confirmed: int = 0
    """The number of confirmed messages."""
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
    *,
    copies: int = 1,
    pulsar: bool = False,
) -> Verdict:
    """Check every confirm; with ``pulsar``, every receipt. ``synchronous`` are the descriptors
    whose writes are synchronous, and ``copies`` how many queues each message is for. Raises
    :class:`PromiseBroken`."""
    disk, verdict = _Disk(copies), Verdict()
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
            for numbers in _received(data) if pulsar else _confirmed(data, through):
                _look(numbers, disk, verdict)
                through = max(through, numbers.stop)
        elif "<unfinished ...>" in rest:
            begun[task] = call, int(fd), path, data
        elif _has_succeeded(rest):
            disk.returned(call, path, int(fd) in synchronous, data)
    if through != messages:
        raise PromiseBroken(f"expected confirms of {messages} messages, got {through}")
    return verdict


def _confirmed(data: bytes, through: int) -> Iterator[range]:
    """Yield the numbers that each confirm in ``data`` names; those below ``through`` have been."""
    for tag_bytes, multiple in CONFIRM.findall(data):
        tag = int.from_bytes(tag_bytes, "big")
        yield range(through, tag) if multiple != b"\0" else range(tag - 1, tag)
        through = max(through, tag)


def _received(data: bytes) -> Iterator[range]:
    """Yield the number that each receipt in ``data`` names."""
    at = 0
    while at < len(data):
        frame, command = SIZES.unpack_from(data, at)
        base = decode(data[at + SIZES.size : at + SIZES.size + command])
        if integer(base, 1) == Command.SEND_RECEIPT:
            number = integer(decode(data_of(base, int(Command.SEND_RECEIPT))), 2)
            yield range(number, number + 1)
        at += frame + SIZES.size // 2


def _look(numbers: Iterable[int], disk: _Disk, verdict: Verdict) -> None:
    verdict.confirms += 1
    for number in numbers:
        if number in disk.in_journal:
            verdict.by_journal += 1
        elif number in disk.in_lmdb:
            verdict.by_lmdb += 1
        else:
            raise PromiseBroken(f"message {number} was confirmed before it was on disk")
        verdict.confirmed += 1


def _bytes(shown: str) -> bytes:
    return bytes.fromhex(shown.replace("\\x", ""))


def _has_succeeded(rest: str) -> bool:
    return re.search(r"\) += \d+", rest) is not None


def traced(
    directory: Path, window: int, messages: int, *, mixed: bool = False, pulsar: bool = False
) -> Verdict:
    """Publish to a broker, and judge what it did."""
    broker = Arneb(directory, listeners=("pulsar" if pulsar else "amqp",)).start()
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
            if pulsar:
                asyncio.run(_send(broker.pulsar_address, window, messages))
            else:
                _publish(broker.url, window, messages, mixed)
            synchronous &= _synchronous(broker.pid)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
    finally:
        broker.stop()
    with trace.open() as lines:
        copies = len(QUEUES) if mixed else 1
        return judge(lines, frozenset(synchronous), messages, copies=copies, pulsar=pulsar)


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


def _publish(url: str, window: int, messages: int, mixed: bool) -> None:
    """Publish the messages, with at most ``window`` of them unconfirmed: to one queue, or mixed
    ones to both."""
    confirmed = 0

    def told(frame: pika.frame.Method) -> None:
        nonlocal confirmed
        assert isinstance(frame.method, pika.spec.Basic.Ack), f"expected an ack, got {frame!r}"
        confirmed = frame.method.delivery_tag

    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        for queue in QUEUES:
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, EXCHANGE, "key.#")
        channel._impl.confirm_delivery(told)
        properties = pika.BasicProperties(delivery_mode=2)
        for number in range(messages):
            if mixed:
                properties = _properties_of(number)
                key, body = f"key.{number % KEYS}", BODY % number + b"." * (number * 7 % 300)
                channel.basic_publish(EXCHANGE, key, body, properties, mandatory=True)
            else:
                channel.basic_publish("", QUEUES[0], BODY % number, properties)
            while number + 1 - confirmed >= window:
                connection.process_data_events(time_limit=POLL_S)
        while confirmed < messages:
            connection.process_data_events(time_limit=POLL_S)
    finally:
        connection.close()


async def _send(address: Address, window: int, messages: int) -> None:
    """Send the messages over Pulsar's protocol, with at most ``window`` without a receipt."""
    client = await PulsarClient.open(address)
    await client.create_producer(TOPIC)
    room = asyncio.Semaphore(window)
    receipts = []
    for number in range(messages):
        await room.acquire()
        receipt = client.send(number, BODY % number)
        receipt.add_done_callback(lambda _: room.release())
        receipts.append(receipt)
    await asyncio.gather(*receipts)
    await client.abort()


def _properties_of(number: int) -> pika.BasicProperties:
    headers = {"attempt": number % 3, "trace": f"{number:016x}"}
    return pika.BasicProperties(
        delivery_mode=2, message_id=str(number), timestamp=number, headers=headers
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash.traced", description=__doc__)
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--messages", type=int, default=500)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--mixed", action="store_true", help="messages as applications send them")
    kind.add_argument("--pulsar", action="store_true", help="over Pulsar's protocol")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="arneb-traced-"))
    try:
        verdict = traced(
            directory,
            options.window,
            options.messages,
            mixed=options.mixed,
            pulsar=options.pulsar,
        )
    except PromiseBroken as broken:
        print(f"tests.crash.traced: {broken}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"window {options.window}: {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
