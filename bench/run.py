"""Runs the rows against RabbitMQ and Arneb in interleaved rounds and reports the medians.

Brokers take turns row by row in every round, so that other load on the machine affects all of them.
All of them run all the time; those that are not being measured are idle.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from bench import report
from bench.applications import APPLICATION_ROWS
from bench.chart import draw
from bench.crowded import CROWD_ROWS
from bench.features import FEATURE_ROWS
from bench.load import LoadFailed, LoadGenerator, compile_generator
from bench.perf_test import PERF_TEST_ROWS
from bench.rows import CPU, ROWS, WRITTEN, Row, Scale
from bench.samples import Samples, add
from conformance.brokers.arneb import PROTOCOLS, REPOSITORY, Arneb
from conformance.brokers.certificates import make_certificate
from conformance.brokers.process import Broker, BrokerFailed
from conformance.brokers.rabbitmq import RabbitMQ

QUICK_FACTOR = 0.1
WARM_UP_MESSAGES = 2000
USUAL_ROWS = APPLICATION_ROWS + CROWD_ROWS + ROWS + FEATURE_ROWS
ALL_ROWS = USUAL_ROWS + PERF_TEST_ROWS
Makers = Mapping[str, Callable[[Path, Path | None], Broker]]
"""Functions that make a broker in a directory, with TLS if there are certificates, by the broker's
name."""

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
    parser.add_argument(
        "--scale", type=float, default=1.0, help="the share of each row's messages to use"
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="start no row after this time, and end"
    )
    parser.add_argument("--only", choices=["arneb", "rabbitmq"], help="leave out the other broker")
    parser.add_argument(
        "--compiled",
        type=Path,
        metavar="CHECKOUT",
        help="also measure the broker of another checkout, in which `make compiled` was run",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="RESULT.json",
        help="continue a result: its rounds and these are reported together",
    )
    parser.add_argument("--no-limit", action="store_true", help="leave out the LMDB limit")
    parser.add_argument("--no-write", action="store_true", help="print only")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 0 if everything could be measured, whatever the
    figures."""
    options = _parse(arguments)
    wanted = options.rows.split(",") if options.rows else [row.name for row in USUAL_ROWS]
    rows = [row for row in ALL_ROWS if row.name in wanted]
    if unknown := set(wanted) - {row.name for row in rows}:
        print(f"bench: expected rows as --help lists them, got {sorted(unknown)}", file=sys.stderr)
        return 2
    rounds = 1 if options.quick else options.rounds
    scale = Scale(QUICK_FACTOR if options.quick else options.scale)
    names = [options.only] if options.only else [report.BASE, report.SUBJECT]
    makers = {name: _MAKERS[name] for name in names}
    if options.compiled:
        makers[report.COMPILED] = partial(_arneb, checkout=options.compiled.resolve())
    try:
        until = time.monotonic() + options.seconds
        samples = _run(rows, rounds, scale, makers, until, limits=not options.no_limit)
    except (BrokerFailed, LoadFailed) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    if not samples.figures:
        print(f"bench: expected time for one row at least in {options.seconds} s", file=sys.stderr)
        return 1
    if options.into:
        kept = Samples.of(json.loads(options.into.read_text())["samples"])
        kept.take(samples)
        rows, samples = [row for row in ALL_ROWS if kept.has(row.name)], kept
    print(report.table(report.lines(rows, samples)))
    if not options.no_write:
        written = report.write(rows, samples, quick=options.quick, into=options.into)
        print(f"written to {written} and {draw(written.with_suffix('.json'))}")
    return 0


def _run(
    rows: Sequence[Row], rounds: int, scale: Scale, makers: Makers, until: float, *, limits: bool
) -> Samples:
    """The samples measured until everything is done, or until the monotonic clock reaches
    ``until``."""
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="arneb-bench-") as place:
        directory = Path(place)
        samples.flush_us.append(report.flush_us(directory))
        tls = any(row.tls for row in rows)
        load = compile_generator(directory, tls=tls)
        steady = [row for row in rows if not row.fresh]
        if steady:
            with _running(makers, directory / "steady", load, tls=tls) as brokers:
                for number, row in product(range(rounds), steady):
                    if time.monotonic() > until:
                        break
                    _measure(row, brokers, load, scale, samples, number)
                    if limits and row.limit:
                        add(samples.limits, row.name, report.LIMIT, [row.limit(scale)])
        for row in rows:
            for name, make in makers.items() if row.fresh and time.monotonic() <= until else ():
                alone = {name: make}
                with _running(alone, directory / row.name, load, warm_up=False) as brokers:
                    _measure(row, brokers, load, scale, samples, 0)
    return samples


def _measure(
    row: Row,
    brokers: Mapping[str, Broker],
    load: LoadGenerator,
    scale: Scale,
    samples: Samples,
    number: int,
) -> None:
    for name, broker in brokers.items():
        figures = row.measure(load, broker, scale)
        cpu_us = figures.pop(CPU, None)
        if cpu_us is not None:
            add(samples.cpu_us, row.name, name, [cpu_us])
        written = figures.pop(WRITTEN, None)
        if written is not None:
            add(samples.written, row.name, name, [written])
        for figure, value in figures.items():
            add(samples.figures, f"{row.name} {figure}".strip(), name, [value])
        parts = [f"{figure} {report.number(value)}".strip() for figure, value in figures.items()]
        shown = ", ".join(parts)
        used = "" if cpu_us is None else f", {cpu_us:.2f} µs CPU each"
        used += "" if written is None else f", {written:.0f} bytes written"
        print(f"round {number + 1}: {row.name}: {name}: {shown} {row.unit}{used}", flush=True)


def _arneb(home: Path, certificates: Path | None, checkout: Path = REPOSITORY) -> Broker:
    """An Arneb, with a TLS listener if there are certificates. Another checkout uses the Python of
    its own environment, if it has one."""
    own = checkout / ".venv" / "bin" / "arneb"
    command = [str(own)] if checkout != REPOSITORY and own.exists() else []
    if certificates is None:
        return Arneb(home, checkout=checkout, command=command)
    settings = TLS_SETTINGS.format(certificates=certificates)
    listeners = [*PROTOCOLS, "amqp-tls"]
    return Arneb(home, listeners=listeners, settings=settings, checkout=checkout, command=command)


_MAKERS: Final[Makers] = {report.BASE: RabbitMQ, report.SUBJECT: _arneb}


@contextmanager
def _running(
    makers: Makers,
    directory: Path,
    load: LoadGenerator,
    *,
    tls: bool = False,
    warm_up: bool = True,
) -> Iterator[dict[str, Broker]]:
    """Start the brokers, by name, each on an empty directory."""
    certificates: Path | None = None
    if tls:
        certificates = directory / "certificates"
        certificates.mkdir(parents=True)
        make_certificate(certificates, "server", make_certificate(certificates, "root"))
    with ExitStack() as stack:
        brokers: dict[str, Broker] = {}
        for name, make in makers.items():
            broker = make(directory / name, certificates)
            stack.callback(broker.stop)
            brokers[name] = broker.start()
            if warm_up:
                load.run(broker.address, "through", count=WARM_UP_MESSAGES)
        yield brokers
