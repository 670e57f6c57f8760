"""What the measurements with Spark share: a session, CPU seconds of all its processes, a report.

The rule: whatever is compared is measured in one interleaved run. Figures without a target only
explain those with one.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.report import RESULTS, index, machine, stamp

TICKS: Final = os.sysconf("SC_CLK_TCK")
MIB: Final = 1024 * 1024


def tree_of(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree_of(int(child))


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its descendants, including those that have ended."""
    total = 0
    for each in tree_of(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def worker_peak_mib(pid: int) -> float:
    """The peak memory of the largest Python worker, in MiB."""
    peak = 0
    for each in tree_of(pid):
        try:
            command = Path(f"/proc/{each}/comm").read_text()
            status = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue
        if command.startswith("python") and each != os.getpid():
            (line,) = [each for each in status.splitlines() if each.startswith("VmHWM")]
            peak = max(peak, int(line.split()[1]))
    return peak / 1024


def session() -> Any:
    """A Spark session on two cores of this machine."""
    from bench.spark_floor import FloorSource
    from pyspark.sql import SparkSession

    roots = (
        "core",
        "amqp_frontend",
        "pulsar_frontend",
        "spark_connector",
        "cluster",
        "broker",
        ".",
    )
    paths = [str(Path(root).resolve()) for root in roots]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("arneb bench")
    settings = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1", "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FloorSource)
    return spark


def jvm_of(spark: Any) -> int:
    """The JVM's process, of which the Python workers are descendants."""
    pid: int = spark.sparkContext._gateway.proc.pid
    return pid


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``most`` and ``least`` are its target, if it has one."""

    part: str
    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.most is None and self.least is None:
            return None
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    @property
    def target(self) -> str:
        """The target as text."""
        bound = f"≤ {self.most:g}" if self.most is not None else ""
        return f"≥ {self.least:g}" if self.least is not None else bound

    def __str__(self) -> str:
        met = {None: "", True: "met", False: "NOT MET"}[self.is_met]
        return (
            f"{self.part:12} {self.what:52} {self.value:10.3g} {self.unit:12} {self.target:8} {met}"
        )


@dataclass(slots=True)
class Report:
    """The figures, printed as they are measured and written at the end."""

    name: str
    about: str
    lines: list[Line] = field(default_factory=list)

    def add(self, part: str, what: str, value: float, unit: str, **target: float) -> None:
        """Add a figure."""
        line = Line(part, what, value, unit, **target)
        self.lines.append(line)
        print(line, flush=True)

    def go_on(self, kept: Path) -> None:
        """Start with the figures that an earlier run left in that file, if there are any."""
        if kept.is_file():
            found = json.loads(kept.read_text(encoding="utf-8"))
            self.lines[:0] = [Line(**each) for each in found]

    def leave(self, kept: Path) -> None:
        """Leave the figures in that file for a later run."""
        kept.write_text(json.dumps(list(map(asdict, self.lines))), encoding="utf-8")

    @property
    def is_good(self) -> bool:
        """Whether every target is met."""
        return all(line.is_met is not False for line in self.lines)

    def write(self) -> Path:
        """Write the result into bench/results; the result is its path."""
        path = RESULTS / f"{self.name}-{stamp()}.md"
        facts = {name: each for name, each in machine().items() if name != "rabbitmq"}
        listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
        words = {None: "", True: "met", False: "**not met**"}
        rows = "\n".join(
            f"| {each.part} | {each.what} | {each.value:.3g} {each.unit} | {each.target} "
            f"| {words[each.is_met]} |"
            for each in self.lines
        )
        head = "| part | what | figure | target | |\n|---|---|---|---|---|"
        path.write_text(f"# {self.name}\n\n{self.about}\n\n{listed}\n\n{head}\n{rows}\n")
        record = {"machine": facts, "about": self.about, "lines": list(map(asdict, self.lines))}
        path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        index()
        return path
