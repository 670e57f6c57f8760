"""The limit: the same bytes put straight into LMDB, with the same commit sizes.

There is no socket, no protocol and no broker: one process writes what a broker would have to write
for these messages, with one synchronous transaction per commit. A broker on LMDB cannot be faster
than this; the difference is the cost of its own code.
"""

import argparse
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import lmdb

ENTRY_HEADER_BYTES: Final = 40
FRAMING_BYTES: Final = 35
"""What an AMQP message carries besides its body: names, content header, frame headers."""

BLOCK_BYTES_MAX: Final = 256 * 1024
MAP_BYTES: Final = 8 << 30
KEY: Final = struct.Struct(">IQ")


@contextmanager
def _environment() -> Iterator[lmdb.Environment]:
    with tempfile.TemporaryDirectory(prefix="arneb-limit-") as directory:
        environment = lmdb.open(directory, map_size=MAP_BYTES, lib_version=0)
        try:
            yield environment
        finally:
            environment.close()


def _commits(body: int, commit: int, entries: int) -> Iterator[list[tuple[bytes, bytes]]]:
    """The keys and values of each commit: its entries packed into blocks of limited size."""
    entry = bytes(range(256)) * ((body + ENTRY_HEADER_BYTES + FRAMING_BYTES) // 256 + 1)
    entry = entry[: body + ENTRY_HEADER_BYTES + FRAMING_BYTES]
    per_block = max(1, BLOCK_BYTES_MAX // len(entry))
    place = 0
    while place < entries:
        left = min(commit, entries - place)
        blocks = []
        while left:
            count = min(left, per_block)
            place += count
            left -= count
            blocks.append((KEY.pack(1, place), b"".join([entry] * count)))
        yield blocks


def _write(environment: lmdb.Environment, body: int, commit: int, entries: int) -> float:
    began = time.perf_counter()
    for blocks in _commits(body, commit, entries):
        with environment.begin(write=True) as transaction:
            for key, value in blocks:
                transaction.put(key, value, append=True)
    return time.perf_counter() - began


def write_rate(*, body: int, commit: int, entries: int) -> float:
    """Entries per second, written durably."""
    with _environment() as environment:
        return entries / _write(environment, body, commit, entries)


def read_rate(*, body: int, commit: int, entries: int) -> float:
    """Entries per second read back in order and copied, after writing them with these commits."""
    with _environment() as environment:
        _write(environment, body, commit, entries)
        began = time.perf_counter()
        with environment.begin() as transaction:
            total = sum(len(value) for _, value in transaction.cursor())
        seconds = time.perf_counter() - began
        assert total >= entries * body
        return entries / seconds


def main() -> None:
    """Print a table of its own, to see what one machine can do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    entries: int = parser.parse_args().entries
    for body in (256, 4096):
        for commit in (1, 10, 100, 500, 1000):
            rate = write_rate(body=body, commit=commit, entries=min(entries, commit * 10_000))
            print(f"{body:5} bytes, {commit:5} a commit: {rate:12,.0f} entries/s")


if __name__ == "__main__":
    main()
