"""Compares two versions of Arneb: the broker's CPU time per message, row by row, in interleaved
pairs.

``python -m bench.pairs REVISION`` compares the code of that commit, *before*, with this checkout,
*after*. Each pair has brokers of its own, because one process may happen to have a better memory
layout than another. Both are measured row by row, and the order alternates, so that a machine whose
speed drifts favours neither. What is compared is the CPU time of the broker's process, which other
processes disturb far less than they disturb a rate. The ratio of a row is the geometric mean over
its pairs, and its upper bound is the one-sided 95 % bound of Student's t on the logarithms.

The rule: the exit status is 1 if a bound is above ``--limit``, so that a claim of "no slower" is a
command that anyone can repeat.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Final

from bench.applications import APPLICATION_ROWS
from bench.features import FEATURE_ROWS
from bench.load import LoadFailed, compile_generator
from bench.older import export
from bench.rows import ROWS, Row, Scale
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import BrokerFailed

STUDENT_T_95: Final = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
    1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
)  # fmt: skip
"""The one-sided 95 % quantiles for 1, 2, ... degrees of freedom. The last one is used for more as
well, which makes the bound a little wider than necessary."""

LIMIT: Final = 1.03
WARM_UP_MESSAGES: Final = 20_000
COMPARED: Final = tuple(
    row
    for row in APPLICATION_ROWS + ROWS + FEATURE_ROWS
    if not (row.fresh or row.tls) and row.unit == "msg/s"
)
"""The rows whose work is a number of messages; latency and memory do not depend on CPU time per
message."""


@dataclass(slots=True)
class Pairs:
    """The CPU seconds of one row: before and after, pair by pair."""

    before_s: list[float] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return exp(mean(self._logarithms))

    @property
    def upper_bound(self) -> float:
        """A bound that is above the true ratio in 95 of 100 experiments."""
        values = self._logarithms
        quantile = STUDENT_T_95[min(len(values) - 2, len(STUDENT_T_95) - 1)]
        return exp(mean(values) + quantile * stdev(values) / sqrt(len(values)))

    @property
    def _logarithms(self) -> list[float]:
        both = zip(self.before_s, self.after_s, strict=True)
        return [log(after_s / before_s) for before_s, after_s in both]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(row.name for row in COMPARED)
    parser = argparse.ArgumentParser(prog="bench.pairs", description=__doc__)
    parser.add_argument("revision", help="the commit that is *before*")
    parser.add_argument("--rows", help=f"comma-separated, of: {names}")
    parser.add_argument("--pairs", type=int, default=10, help="at least 2")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="the share of each row's messages to use"
    )
    parser.add_argument("--limit", type=float, default=LIMIT)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; the exit status is 0 if every bound is within the limit, 1 if not, 2 if it could not
    be measured."""
    options = _parse(arguments)
    wanted = options.rows.split(",") if options.rows else [row.name for row in COMPARED]
    rows = [row for row in COMPARED if row.name in wanted]
    if len(rows) < len(wanted) or options.pairs < 2:
        print("bench.pairs: expected rows as --help lists them and two pairs", file=sys.stderr)
        return 2
    try:
        found = _measure(rows, options.revision, options.pairs, Scale(options.scale))
    except (BrokerFailed, LoadFailed, subprocess.CalledProcessError) as failure:
        print(f"bench.pairs: {failure}", file=sys.stderr)
        return 2
    print(f"\n| row | before, CPU s | after, CPU s | ratio | upper 95 % bound of {options.pairs} |")
    print("|---|---|---|---|---|")
    for row in rows:
        pairs = found[row.name]
        print(
            f"| {row.name} | {mean(pairs.before_s):.3f} | {mean(pairs.after_s):.3f}"
            f" | {pairs.ratio:.3f} | {pairs.upper_bound:.3f} |"
        )
    over = [row.name for row in rows if found[row.name].upper_bound > options.limit]
    print(f"\nabove {options.limit}: {', '.join(over) or 'none'}")
    return 1 if over else 0


def _measure(rows: Sequence[Row], revision: str, count: int, scale: Scale) -> dict[str, Pairs]:
    found = {row.name: Pairs() for row in rows}
    with tempfile.TemporaryDirectory(prefix="arneb-pairs-") as place:
        directory = Path(place)
        load = compile_generator(directory)
        export(revision, directory / "code")
        for number in range(count):
            home = directory / f"pair-{number}"
            with ExitStack() as running:
                before = _started(Arneb(home / "before", checkout=directory / "code"), running)
                after = _started(Arneb(home / "after"), running)
                for broker in (before, after):
                    load.run(broker.address, "through", count=WARM_UP_MESSAGES)
                for row in rows:
                    pairs = found[row.name]
                    sides = [(before, pairs.before_s), (after, pairs.after_s)]
                    for broker, seconds in sides if number % 2 else reversed(sides):
                        began_s = broker.cpu_s()
                        row.measure(load, broker, scale)
                        seconds.append(broker.cpu_s() - began_s)
                    ratio = pairs.after_s[-1] / pairs.before_s[-1]
                    print(f"pair {number + 1}: {row.name}: {ratio:.3f}", flush=True)
            shutil.rmtree(home)
    return found


def _started(broker: Arneb, running: ExitStack) -> Arneb:
    """Start ``broker``, which runs until ``running`` is left."""
    running.callback(broker.stop)
    return broker.start()


if __name__ == "__main__":
    sys.exit(main())
