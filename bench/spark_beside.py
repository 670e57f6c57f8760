"""What Spark costs a broker's other clients: a scan, a scan with trimming, and a large batch.

    python -m bench.spark_beside [--parts commit,scan,growth] [--seconds 20] [--rows 300000]

The rule: the broker, its clients and Spark share this machine's processors, and each figure is
compared with the same figure without Spark, measured in turn.

* ``commit``: a paced publisher, whose messages are consumed immediately, beside batches of rows
  that the data API commits at once.
* ``scan``: a saturating publisher and a paced one, in turn alone, beside loops that only count (the
  least that any guest on the same processors costs), and beside one query after the other over an
  existing log.
* ``growth``: how much the data file grows while messages are published, consumed and trimmed, with
  and without scans.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from bench.load import LoadGenerator, compile_generator
from bench.spark_session import MIB, Report, session
from conformance.brokers.arneb import Arneb

from pyspark_arneb.processors import cores
from pyspark_arneb.service.connection import Address
from pyspark_arneb.sink.rows import encode_rows
from pyspark_arneb.sink.staging import RemoteStaging, Stage

BODY: Final = 256
RATE: Final = 5_000
"""The rate of the paced publisher, in messages per second."""
WINDOW: Final = 500
SCANNED: Final = 1_000_000
SCAN_S: Final = 2.0
"""The duration of one figure of ``scan``. It is short, so that compared figures are close in time,
because a machine's speed varies."""
GUEST_START_S: Final = 0.3


def staged(staging: RemoteStaging, query: str, batch: int, rows: int, target: str) -> Stage:
    """Stage rows, which are invisible until they are committed."""
    values = pa.array([os.urandom(BODY) for _ in range(min(rows, 8192))], pa.binary())
    table = pa.RecordBatch.from_pydict({"value": values})
    pieces = done = 0
    while done < rows:
        for body in encode_rows(table.slice(0, rows - done), [{"queue": target}]):
            assert staging.stage(query, batch, "s", pieces, body.data)
            pieces, done = pieces + 1, done + body.rows
    return Stage(query, batch, "s", pieces, done)


def latency(load: LoadGenerator, broker: Arneb, seconds: float) -> dict[str, float]:
    """The percentiles of the paced publisher's latency, in ms."""
    found = load.run(broker.address, "latency", rate=RATE, seconds=seconds, body=BODY, queue="c")
    return {name: found[f"{name}_us"] / 1000 for name in ("p50", "p99", "p999", "max")}


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[list[int]]:
    """Repeat ``work`` while the block runs; the yielded list holds how often it was done."""
    over, done, failed = threading.Event(), [0], list[BaseException]()

    def again() -> None:
        try:
            while not over.is_set():
                work()
                done[0] += 1
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]


def commits(report: Report, load: LoadGenerator, broker: Arneb, rows: int, seconds: float) -> None:
    """Commit a batch of this many rows repeatedly, beside a paced publisher."""
    staging = RemoteStaging(Address(f"http://{broker.http_address}", "guest", "guest"))
    load.run(broker.address, "publish", count=10, window=10, body=BODY, queue="into", keep=True)
    query, taken = uuid4().hex, list[float]()

    def once() -> None:
        batch = len(taken)
        stage = staged(staging, query, batch, rows, "into")
        begun = time.perf_counter()
        staging.commit(query, batch, [stage], mandatory=False, is_last=False)
        taken.append(time.perf_counter() - begun)

    alone = latency(load, broker, seconds)
    with meanwhile(once):
        beside = latency(load, broker, seconds)
    for name, value in alone.items():
        report.add("commit", f"{name} of {RATE:,}/s alone", value, "ms")
    for name, value in beside.items():
        bound = {"p99": {"most": 100.0}, "max": {"most": 500.0}}.get(name, {})
        report.add("commit", f"{name} beside commits of {rows:,} rows", value, "ms", **bound)
    report.add(
        "commit", f"commits of {rows:,} rows took, median of {len(taken)}", median(taken), "s"
    )


COUNTING: Final = """
from pyspark_arneb.guest import guest
with guest(10) as make_room:
    while True:
        for _ in range(100_000):
            pass
        make_room()
"""
"""A guest that needs a processor and nothing else: no memory, no disk, no log."""


@contextmanager
def counting() -> Iterator[None]:
    """A guest on every processor while the block runs."""
    guests = [subprocess.Popen([sys.executable, "-c", COUNTING]) for _ in range(cores())]
    try:
        time.sleep(GUEST_START_S)
        yield
    finally:
        for guest in guests:
            guest.kill()
            guest.wait()


def scans(
    report: Report, load: LoadGenerator, broker: Arneb, seconds: float, rounds: int, spark: Any
) -> None:
    """Measure publishers alone, beside guests that only count, and beside one query after the
    other."""
    load.run(
        broker.address, "publish", count=SCANNED, window=5000, body=BODY, queue="log", keep=True
    )
    log = spark.read.format("arneb").option("path", str(broker.data)).option("topic", "log")

    def scan() -> None:
        assert log.load().selectExpr("max(length(value))").collect()

    def rate() -> float:
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            load.run(broker.address, "publish", count=200_000, window=WINDOW, body=BODY, queue="p")
            count += 200_000
        return count / (time.perf_counter() - begun)

    def wait() -> float:
        return latency(load, broker, seconds)["p99"]

    scan()
    begun, scan_alone = time.perf_counter(), 3
    for _ in range(scan_alone):
        scan()
    rows = scan_alone * SCANNED / (time.perf_counter() - begun) / 1e6
    report.add("scan", "rows scanned beside an idle broker", rows, "M/s")
    done, spent = 0, 0.0
    what = {"saturating, messages/s": rate, f"{RATE:,}/s, p99 in ms": wait}
    beside: dict[str, dict[str, list[float]]] = {
        name: {"alone": [], "scans": [], "counting": []} for name in what
    }
    for _ in range(rounds):
        for name, figure in what.items():
            alone = figure()
            with counting():
                counted = figure()
            begun = time.perf_counter()
            with meanwhile(scan) as scanned:
                value = figure()
            done, spent = done + scanned[0], spent + time.perf_counter() - begun
            for each, measured in {"alone": alone, "scans": value, "counting": counted}.items():
                beside[name][each].append(measured)
    report.add("scan", "rows scanned meanwhile", done * SCANNED / spent / 1e6, "M/s")
    for name, figures in beside.items():
        for each, found in figures.items():
            report.add("scan", f"{name}, {each}", median(found), "")
    for name, most in (("scans", 25.0), ("counting", None)):
        falls = [1 - each / alone for alone, each in pairs(beside, "saturating", name)]
        bound = {} if most is None else {"most": most}
        what_falls = f"saturating: it falls beside {name} by, median of {rounds} pairs"
        report.add("scan", what_falls, 100 * median(falls), "%", **bound)
    for name, most in (("scans", 2.0), ("counting", None)):
        grows = [each / alone for alone, each in pairs(beside, f"{RATE:,}", name)]
        bound = {} if most is None else {"most": most}
        what_grows = f"{RATE:,}/s: p99 beside {name}, a multiple, median of {rounds} pairs"
        report.add("scan", what_grows, median(grows), "", **bound)


def pairs(
    beside: dict[str, dict[str, list[float]]], what: str, name: str
) -> Iterator[tuple[float, float]]:
    """A figure alone and beside something else, measured one after the other."""
    (figures,) = [each for key, each in beside.items() if key.startswith(what)]
    return zip(figures["alone"], figures[name], strict=True)


def growth(report: Report, load: LoadGenerator, folder: Path, seconds: float, spark: Any) -> None:
    """Measure two brokers, one after the other: the size of the data file at the end."""
    sizes: dict[str, float] = {}
    for name in ("alone", "beside"):
        broker = Arneb(folder / name, listeners=["amqp", "http"]).start()
        try:
            load.run(
                broker.address,
                "publish",
                count=500_000,
                window=5000,
                body=BODY,
                queue="g",
                keep=True,
            )
            load.run(
                broker.address,
                "drain",
                count=500_000,
                prefetch=5000,
                ack_every=100,
                queue="g",
                keep=True,
            )
            path, begun = str(broker.data), time.perf_counter()

            def scan(path: str = path) -> None:
                log = spark.read.format("arneb").option("path", path).option("topic", "g")
                log.option("failOnDataLoss", "false").load().selectExpr(
                    "max(length(value))"
                ).collect()

            def churn(broker: Arneb = broker, begun: float = begun) -> None:
                while time.perf_counter() - begun < seconds:
                    load.run(
                        broker.address,
                        "publish",
                        count=100_000,
                        window=WINDOW,
                        body=BODY,
                        queue="g",
                        keep=True,
                    )
                    load.run(
                        broker.address,
                        "drain",
                        count=100_000,
                        prefetch=1000,
                        ack_every=100,
                        queue="g",
                        keep=True,
                    )

            if name == "beside":
                with meanwhile(scan):
                    churn()
            else:
                churn()
            sizes[name] = (broker.data / "data.mdb").stat().st_blocks * 512 / MIB
        finally:
            broker.kill()
    report.add(
        "growth",
        f"data file after {seconds:.0f} s of publishing and trimming",
        sizes["alone"],
        "MiB",
    )
    report.add("growth", "the same beside scans", sizes["beside"], "MiB")
    more = 100 * (sizes["beside"] / sizes["alone"] - 1)
    report.add("growth", "it grows by so much more", more, "%", most=5)


def main() -> None:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", default="commit,scan,growth")
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="for each figure of commit; growth takes three times as long",
    )
    parser.add_argument("--rows", type=int, default=300_000, help="rows per commit")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of scan")
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    report = Report("spark-beside", "What Spark costs a broker's other clients, on one machine.")
    with tempfile.TemporaryDirectory(prefix="arneb-bench-beside-") as place:
        folder = Path(place)
        load = compile_generator(folder / "load")
        spark = None
        if {"scan", "growth"} & set(parts):
            spark = session()
        broker = Arneb(folder / "broker", listeners=["amqp", "http"]).start()
        try:
            if "commit" in parts:
                commits(report, load, broker, arguments.rows, arguments.seconds)
            if "scan" in parts:
                scans(report, load, broker, SCAN_S, arguments.rounds, spark)
        finally:
            broker.kill()
        if "growth" in parts:
            growth(report, load, folder, 3 * arguments.seconds, spark)
        if spark is not None:
            spark.stop()
    if not arguments.no_write:
        print(f"written to {report.write()}")
    sys.exit(not report.is_good)


if __name__ == "__main__":
    main()
