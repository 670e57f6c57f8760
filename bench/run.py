"""Runs the rows against RabbitMQ and Arneb in interleaved rounds and reports the medians.

Round by round and row by row the two take turns, so that whatever else the machine does
falls on both. Both run all the time; the one that is not measured idles.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import report
from bench.applications import APPLICATION_ROWS
from bench.chart import draw
from bench.features import FEATURE_ROWS
from bench.load import LoadFailed, LoadGenerator, compile_generator
from bench.perf_test import PERF_TEST_ROWS
from bench.rows import CPU, ROWS, WRITTEN, Row, Scale
from conformance.brokers.arneb import PROTOCOLS, Arneb
from conformance.brokers.certificates import make_certificate
from conformance.brokers.process import Broker, BrokerFailed
from conformance.brokers.rabbitmq import RabbitMQ

QUICK_FACTOR = 0.1
WARM_UP_MESSAGES = 2000
USUAL_ROWS = APPLICATION_ROWS + ROWS + FEATURE_ROWS
ALL_ROWS = USUAL_ROWS + PERF_TEST_ROWS
TLS_SETTINGS = """
[amqp.tls]
listen = "127.0.0.1:0"
certificate = "{certificates}/server.crt"
key = "{certificates}/server.key"
"""


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(row.name for row in ALL_ROWS)
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", help=f"comma-separated, of: {names}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one round")
    parser.add_argument("--only", choices=["arneb", "rabbitmq"], help="leave the other one out")
    parser.add_argument("--no-limit", action="store_true", help="leave the LMDB limit out")
    parser.add_argument("--no-write", action="store_true", help="print only")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything could be measured; the figures decide nothing."""
    options = _parse(arguments)
    wanted = options.rows.split(",") if options.rows else [row.name for row in USUAL_ROWS]
    rows = [row for row in ALL_ROWS if row.name in wanted]
    if unknown := set(wanted) - {row.name for row in rows}:
        print(f"bench: expected rows as --help lists them, got {sorted(unknown)}", file=sys.stderr)
        return 2
    rounds = 1 if options.quick else options.rounds
    scale = Scale(QUICK_FACTOR if options.quick else 1.0)
    names = [options.only] if options.only else ["rabbitmq", "arneb"]
    try:
        samples = _run(rows, rounds, scale, names, limits=not options.no_limit)
    except (BrokerFailed, LoadFailed) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    lines = report.lines(rows, samples)
    print(report.table(lines))
    if not options.no_write:
        written = report.write(lines, rounds, options.quick)
        print(f"written to {written} and {draw(written.with_suffix('.json'))}")
    return 0


def _run(
    rows: Sequence[Row], rounds: int, scale: Scale, names: Sequence[str], *, limits: bool
) -> report.Samples:
    samples = report.Samples()
    with tempfile.TemporaryDirectory(prefix="arneb-bench-") as place:
        directory = Path(place)
        tls = any(row.tls for row in rows)
        load = compile_generator(directory, tls=tls)
        steady = [row for row in rows if not row.fresh]
        if steady:
            with _running(names, directory / "steady", load, tls=tls) as brokers:
                for number in range(rounds):
                    for row in steady:
                        _measure(row, brokers, load, scale, samples, number)
                        if limits and row.limit:
                            samples.add_limit(row.name, row.limit(scale))
        for row in rows:
            for name in names if row.fresh else ():
                with _running([name], directory / row.name, load, warm_up=False) as brokers:
                    _measure(row, brokers, load, scale, samples, 0)
    return samples


def _measure(
    row: Row,
    brokers: Sequence[Broker],
    load: LoadGenerator,
    scale: Scale,
    samples: report.Samples,
    number: int,
) -> None:
    for broker in brokers:
        figures = row.measure(load, broker, scale)
        cpu_us = figures.pop(CPU, None)
        if cpu_us is not None:
            samples.add_cpu(row.name, broker.name, cpu_us)
        written = figures.pop(WRITTEN, None)
        if written is not None:
            samples.add_written(row.name, broker.name, written)
        for figure, value in figures.items():
            samples.add(f"{row.name} {figure}".strip(), broker.name, value)
        parts = [f"{figure} {report.number(value)}".strip() for figure, value in figures.items()]
        shown = ", ".join(parts)
        used = "" if cpu_us is None else f", {cpu_us:.2f} µs CPU each"
        used += "" if written is None else f", {written:.0f} bytes written"
        print(
            f"round {number + 1}: {row.name}: {broker.name}: {shown} {row.unit}{used}", flush=True
        )


def _broker(name: str, home: Path, certificates: Path | None) -> Broker:
    """With a listener for TLS if there are certificates."""
    if name == "rabbitmq":
        return RabbitMQ(home, certificates)
    if certificates is None:
        return Arneb(home)
    settings = TLS_SETTINGS.format(certificates=certificates)
    return Arneb(home, listeners=[*PROTOCOLS, "amqp-tls"], settings=settings)


@contextmanager
def _running(
    names: Sequence[str],
    directory: Path,
    load: LoadGenerator,
    *,
    tls: bool = False,
    warm_up: bool = True,
) -> Iterator[list[Broker]]:
    """The named brokers, each on an empty directory."""
    certificates: Path | None = None
    if tls:
        certificates = directory / "certificates"
        certificates.mkdir(parents=True)
        make_certificate(certificates, "server", make_certificate(certificates, "root"))
    with ExitStack() as stack:
        brokers: list[Broker] = []
        for name in names:
            broker = _broker(name, directory / name, certificates)
            stack.callback(broker.stop)
            brokers.append(broker.start())
            if warm_up:
                load.run(broker.address, "through", count=WARM_UP_MESSAGES)
        yield brokers
