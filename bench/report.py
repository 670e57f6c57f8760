"""Figures of all rounds, as medians and ratios, in a table that people and programs can read."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from string import ascii_lowercase
from typing import Final

from bench.rows import Row

RESULTS: Final = Path(__file__).parent / "results"
BASE: Final = "rabbitmq"
SUBJECT: Final = "arneb"


@dataclass(slots=True)
class Samples:
    """Every figure that was measured: by line (row and figure), then by broker, in rounds."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    cpu_us: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    written: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    limits: dict[str, list[float]] = field(default_factory=dict)

    def add(self, line: str, broker: str, value: float) -> None:
        self.figures.setdefault(line, {}).setdefault(broker, []).append(value)

    def add_cpu(self, row: str, broker: str, value_us: float) -> None:
        self.cpu_us.setdefault(row, {}).setdefault(broker, []).append(value_us)

    def add_written(self, row: str, broker: str, value: float) -> None:
        """Bytes written for a message."""
        self.written.setdefault(row, {}).setdefault(broker, []).append(value)

    def add_limit(self, line: str, value: float) -> None:
        self.limits.setdefault(line, []).append(value)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: medians over the rounds."""

    row: str
    title: str
    unit: str
    base: float | None
    subject: float | None
    ratio: float | None
    limit: float | None
    of_limit: float | None
    goal: str
    base_cpu_us: float | None
    subject_cpu_us: float | None
    base_written: float | None
    subject_written: float | None
    rounds: Mapping[str, list[float]]


def lines(rows: Iterable[Row], samples: Samples) -> list[Line]:
    """The table, in the rows' order."""
    return [
        _line(row, key, samples)
        for row in rows
        for key in samples.figures
        if key == row.name or key.startswith(f"{row.name} ")
    ]


def _line(row: Row, key: str, samples: Samples) -> Line:
    rounds = samples.figures[key]
    figure = key.removeprefix(row.name).strip()
    cpu_us = {} if figure else samples.cpu_us.get(row.name, {})
    written = {} if figure else samples.written.get(row.name, {})
    base, subject = _median(rounds.get(BASE)), _median(rounds.get(SUBJECT))
    limit = _median(samples.limits.get(key))
    return Line(
        row=row.name,
        title=f"{row.title}: {figure}" if figure else row.title,
        unit=row.unit,
        base=base,
        subject=subject,
        ratio=_ratio(base, subject, row.lower_is_better),
        limit=limit,
        of_limit=subject / limit if subject and limit else None,
        goal=row.goals.get(figure, ""),
        base_cpu_us=_median(cpu_us.get(BASE)),
        subject_cpu_us=_median(cpu_us.get(SUBJECT)),
        base_written=_median(written.get(BASE)),
        subject_written=_median(written.get(SUBJECT)),
        rounds=rounds,
    )


def _median(values: list[float] | None) -> float | None:
    return median(values) if values else None


def _ratio(base: float | None, subject: float | None, lower_is_better: bool) -> float | None:
    if not base or not subject:
        return None
    return base / subject if lower_is_better else subject / base


def table(rows: list[Line]) -> str:
    """A Markdown table that also reads well as plain text."""
    head = (
        "row",
        "unit",
        "RabbitMQ",
        "Arneb",
        "ratio",
        "goal",
        "CPU µs a message",
        "bytes written a message",
        "LMDB alone",
        "of that",
    )
    body = [
        (
            line.title,
            line.unit,
            number(line.base),
            number(line.subject),
            f"{line.ratio:.2f}" if line.ratio else "",
            line.goal,
            _beside(line.base_cpu_us, line.subject_cpu_us),
            _beside(line.base_written, line.subject_written),
            number(line.limit),
            f"{line.of_limit:.0%}" if line.of_limit else "",
        )
        for line in rows
    ]
    widths = [max(len(row[column]) for row in [head, *body]) for column in range(len(head))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [head, rule, *body]
    )


def _beside(base: float | None, subject: float | None) -> str:
    """RabbitMQ's and Arneb's figure; nothing where it was not measured."""
    return " / ".join(number(each) for each in (base, subject) if each is not None)


def number(value: float | None) -> str:
    """A figure with as many digits as mean something; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    cpu = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": f"{platform.python_version()}, hot modules {_form()}",
        "rabbitmq": _output("dpkg-query", "-W", "-f=${Version}", "rabbitmq-server"),
        "commit": _output("git", "describe", "--always", "--dirty"),
    }


def _form() -> str:
    found = find_spec("arneb_amqp.wire.fast")
    return "pure" if found is None or str(found.origin).endswith(".py") else "compiled"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def write(rows: list[Line], rounds: int, quick: bool) -> Path:
    """Write both files; answers the path of the Markdown one."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = RESULTS / f"{now:%Y-%m-%dT%H%M}Z.md"
    facts = machine()
    title = f"# {now:%Y-%m-%d %H:%M} UTC, median of {rounds}" + (", quick run" if quick else "")
    listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    path.write_text(f"{title}\n\n{listed}\n\n{table(rows)}\n")
    record = {
        "time": now.isoformat(timespec="seconds"),
        "rounds": rounds,
        "quick": quick,
        "machine": facts,
        "lines": [asdict(line) for line in rows],
    }
    path.with_suffix(".json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    index()
    return path


def beside(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """A table of what Apache Pulsar and Arneb need: medians, and how many times better. Of a rate
    more is better, of anything else less."""
    rows = ["| | Pulsar | Arneb | Arneb is better by |", "|---|---|---|---|"]
    for figure, by_name in found.items():
        theirs, ours = median(by_name["pulsar"]), median(by_name["arneb"])
        better = ours / theirs if figure.endswith("/s") else theirs / ours
        rows.append(f"| {figure} | {number(theirs)} | {number(ours)} | {better:.2g} |")
    return "\n".join(rows)


def keep(name: str, title: str, text: str) -> Path:
    """Write a result that is text, with what it was measured on."""
    path = RESULTS / f"{name}-{stamp()}.md"
    facts = "\n".join(f"* {each}: {value}" for each, value in machine().items())
    path.write_text(f"# {title}\n\n{facts}\n\n{text}\n")
    index()
    return path


def stamp() -> str:
    """Now, as a part of a file's name."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H%M}Z"


def index() -> None:
    """List every result, the newest first."""
    results = (each.stem for each in RESULTS.glob("*2*.md"))
    names = sorted(results, key=lambda name: name.lstrip(ascii_lowercase + "-"), reverse=True)
    listed = "\n".join(f"* [{name}]({name}.md)" for name in names)
    (RESULTS / "README.md").write_text(f"# Results\n\n{listed}\n")
