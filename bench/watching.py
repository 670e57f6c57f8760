"""The cost of open pages to the broker: ``python -m bench.watching``.

The rule: as in :mod:`bench.polling`, pairs of runs with the same load, in one of which a number of
event streams are open, in CPU seconds of the broker per message.
"""

import argparse
import http.client
import json
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from bench.load import LoadGenerator, compile_generator
from bench.operators import declare
from bench.spark_session import Report
from conformance.brokers.arneb import PROTOCOLS, Arneb

RATIO_MAX: Final = 1.02

RESTING_S: Final = 5.0
RESTING_ROUNDS: Final = 3

MARK: Final = {"x-arneb-page": "1", "content-type": "application/json"}

SHOWN: Final = {
    "node": "page/node",
    "list": "page/topics?page=1&page_size=50&sort=messages&sort_reverse=true",
}
"""What the page of queues and topics shows, with the longest queues first."""


class Stream:
    """An open page: reads what arrives, and counts the bytes."""

    def __init__(self, address: str, cookie: str) -> None:
        self.bytes = 0
        self._connection = http.client.HTTPConnection(address, timeout=30)
        asked = "&".join(f"{name}={quote(call, safe='')}" for name, call in SHOWN.items())
        self._connection.request("GET", f"/api/page/stream?{asked}", headers={"cookie": cookie})
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Stream, {self.bytes} bytes>"

    def _read(self) -> None:
        try:
            while data := self._answer.read1(65536):
                self.bytes += len(data)
        except (OSError, ValueError, http.client.HTTPException):
            pass  # it has been closed

    def close(self) -> None:
        """Close the page, so that nothing of it disturbs the run that it is compared with."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._answer.close()
        self._connection.close()


def session(address: str) -> str:
    """The cookie of a login."""
    connection = http.client.HTTPConnection(address, timeout=30)
    proof = json.dumps({"username": "guest", "password": "guest"})
    connection.request("POST", "/api/page/session", proof, MARK)
    answer = connection.getresponse()
    cookie = answer.getheader("set-cookie", "")
    answer.read()
    connection.close()
    assert answer.status == 200, answer.status
    return cookie.partition(";")[0]


@contextmanager
def watching(address: str, count: int) -> Iterator[list[Stream]]:
    """This many open pages, each with a session of its own."""
    streams = [Stream(address, session(address)) for _ in range(count)]
    try:
        yield streams
    finally:
        for each in streams:
            each.close()


def pairs(
    broker: Arneb, load: LoadGenerator, streams: int, count: int, runs: int
) -> tuple[list[float], int]:
    """Ratios of the CPU time per message, watched to not watched, and the bytes sent to the
    pages."""
    ratios, sent = list[float](), 0
    address = urlsplit(f"http://{broker.http_address}").netloc

    def messages() -> float:
        before_s = broker.cpu_s()
        load.run(broker.address, "publish", queue="load", count=count, window=100, connections=4)
        return (broker.cpu_s() - before_s) / count

    def watched_messages() -> tuple[float, int]:
        with watching(address, streams) as opened:
            cost = messages()
        return cost, sum(each.bytes for each in opened)

    messages()
    for turn in range(runs):
        if turn % 2:
            (watched, more), alone = watched_messages(), messages()
        else:
            alone, (watched, more) = messages(), watched_messages()
        ratios.append(watched / alone)
        sent += more
    return ratios, sent


def resting(broker: Arneb, streams: int) -> list[float]:
    """What open pages cost a broker that is otherwise idle, in milliseconds of CPU time per
    second."""
    address = urlsplit(f"http://{broker.http_address}").netloc

    def used() -> float:
        before_s, began = broker.cpu_s(), time.monotonic()
        time.sleep(RESTING_S)
        return 1000 * (broker.cpu_s() - before_s) / (time.monotonic() - began)

    found = list[float]()
    for _ in range(RESTING_ROUNDS):
        alone = used()
        with watching(address, streams):
            found.append(used() - alone)
    return found


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--kept", type=Path, help="a file with the pairs of earlier runs")
    options = parser.parse_args()
    ratios, sent = kept_pairs(options.kept)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        load = compile_generator(Path(directory))
        broker = Arneb(Path(directory) / "store", listeners=PROTOCOLS)
        broker.start()
        try:
            declare(broker, options.queues)
            found = pairs(broker, load, options.streams, options.count, options.runs)
            rest = resting(broker, options.streams)
        finally:
            broker.kill()
    ratios, sent = [*ratios, *found[0]], sent + found[1]
    if options.kept:
        options.kept.write_text(json.dumps([ratios, sent]), encoding="utf-8")
    report = Report("watching", f"{len(ratios)} interleaved pairs of {options.count:,} messages.")
    part = f"{options.queues:,} queues, {options.streams} streams"
    tell(report, part, sorted(ratios), sent)
    report.add(part, "of a broker at rest, CPU a second, median", statistics.median(rest), "ms")
    if not options.no_write:
        print(report.write())
    raise SystemExit(not report.is_good)


def kept_pairs(kept: Path | None) -> tuple[list[float], int]:
    """The ratios of earlier runs, and the bytes sent to the pages."""
    if kept is None or not kept.is_file():
        return [], 0
    ratios, sent = json.loads(kept.read_text(encoding="utf-8"))
    return ratios, sent


def tell(report: Report, part: str, ratios: Sequence[float], sent: int) -> None:
    """Add the figures."""
    print(" ".join(f"{each:.3f}" for each in ratios))
    what = "a message, watched to not watched"
    report.add(part, f"{what}, median", statistics.median(ratios), "", most=RATIO_MAX)
    report.add(part, f"{what}, lowest", ratios[0], "")
    report.add(part, f"{what}, highest", ratios[-1], "")
    report.add(part, "sent to all pages", sent / 1e6, "MB")


if __name__ == "__main__":
    main()
