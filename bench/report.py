"""The figures of all rounds as medians and ratios, in a table for people and programs."""

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from string import ascii_lowercase
from typing import Final

from bench.rows import Row
from bench.samples import Samples

RESULTS: Final = Path(__file__).parent / "results"
BASE: Final = "rabbitmq"
SUBJECT: Final = "arneb"
COMPILED: Final = "compiled"
LIMIT: Final = "lmdb"
"""The name among the brokers for what the store alone can do."""

SHAPE_PART: Final = 0.25
"""A row counts if RabbitMQ's rate, compared with the other rows, is that of the machine on which
the goals were set, up to this fraction."""

FLUSHES: Final = 400
FLUSH_BYTES: Final = 4096
FLUSH_FILE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """One broker's medians over the rounds; None for what was not measured."""

    figure: float | None
    cpu_us: float | None
    written: float | None
    ratio: float | None
    """Relative to RabbitMQ; above 1 is better."""


NOT_MEASURED: Final = Subject(None, None, None, None)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    row: str
    title: str
    unit: str
    goal: str
    base: float | None
    subject: float | None
    ratio: float | None
    shape: float | None
    """RabbitMQ's rate divided by its rate when the goals were set, and by the same quotient of the
    median row; ideally 1."""
    limit: float | None
    of_limit: float | None
    brokers: Mapping[str, Subject]


def lines(rows: Sequence[Row], samples: Samples) -> list[Line]:
    """The table's lines, in the rows' order."""
    usual = _median(
        [
            base / row.shape
            for row in rows
            if row.shape and (base := _median(samples.figures.get(row.name, {}).get(BASE)))
        ]
    )
    return [
        _line(row, key, samples, usual)
        for row in rows
        for key in samples.figures
        if key == row.name or key.startswith(f"{row.name} ")
    ]


def _line(row: Row, key: str, samples: Samples, usual: float | None) -> Line:
    figure = key.removeprefix(row.name).strip()
    cpu_us = {} if figure else samples.cpu_us.get(row.name, {})
    written = {} if figure else samples.written.get(row.name, {})
    figures = {name: _median(values) for name, values in samples.figures[key].items()}
    base, subject = figures.get(BASE), figures.get(SUBJECT)
    limit = _median(samples.limits.get(key, {}).get(LIMIT))
    brokers = {
        name: Subject(
            found,
            _median(cpu_us.get(name)),
            _median(written.get(name)),
            _ratio(base, found, row.lower_is_better),
        )
        for name, found in figures.items()
    }
    return Line(
        row=row.name,
        title=f"{row.title}: {figure}" if figure else row.title,
        unit=row.unit,
        goal=row.goals.get(figure, ""),
        base=base,
        subject=subject,
        ratio=_ratio(base, subject, row.lower_is_better),
        shape=base / row.shape / usual if base and row.shape and usual else None,
        limit=limit,
        of_limit=subject / limit if subject and limit else None,
        brokers=brokers,
    )


def _median(values: list[float] | None) -> float | None:
    return median(values) if values else None


def _ratio(base: float | None, subject: float | None, lower_is_better: bool) -> float | None:
    if not base or not subject:
        return None
    return base / subject if lower_is_better else subject / base


def table(rows: list[Line]) -> str:
    """A Markdown table that also reads well as plain text, without empty columns."""
    shown = {name: None for line in rows for name in line.brokers}
    names = [name for name in (BASE, SUBJECT, COMPILED) if name in shown]
    titles = {BASE: "RabbitMQ", SUBJECT: "Arneb", COMPILED: "compiled"}
    head = ["row", "unit", *(titles[name] for name in names)]
    head += [f"ratio{', compiled' * (name == COMPILED)}" for name in names if name != BASE]
    head += ["goal", "CPU µs a message", "bytes written a message", "RabbitMQ's shape"]
    head += ["LMDB alone", "of that"]
    body = []
    for line in rows:
        found = [line.brokers.get(name, NOT_MEASURED) for name in names]
        ratios = [each.ratio for each, name in zip(found, names, strict=True) if name != BASE]
        body.append(
            [
                line.title,
                line.unit,
                *(number(each.figure) for each in found),
                *(f"{ratio:.2f}" if ratio else "" for ratio in ratios),
                line.goal,
                _beside(each.cpu_us for each in found),
                _beside(each.written for each in found),
                _in_shape(line.shape),
                number(line.limit),
                f"{line.of_limit:.0%}" if line.of_limit else "",
            ]
        )
    used = [at for at in range(len(head)) if any(row[at] for row in body)]
    written = [[row[at] for at in used] for row in [head, *body]]
    widths = [max(len(row[column]) for row in written) for column in range(len(used))]
    written.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in written
    )


def _beside(figures: Iterable[float | None]) -> str:
    """The brokers' figures in order, without those that were not measured."""
    return " / ".join(number(each) for each in figures if each is not None)


def _in_shape(shape: float | None) -> str:
    """The shape of a row, with a remark if the row does not count."""
    if shape is None:
        return ""
    return f"{shape:.2f}" if abs(shape - 1) <= SHAPE_PART else f"{shape:.2f}, outside"


def number(value: float | None) -> str:
    """A figure with a sensible number of digits; empty for None."""
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


def flush_us(directory: Path) -> float:
    """The median time of one small synchronous write to that disk, in microseconds."""
    took = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(bytes(FLUSH_FILE_BYTES))
        file.flush()
        os.fsync(file.fileno())
        descriptor = os.open(file.name, os.O_WRONLY | os.O_DSYNC)
        try:
            for number in range(FLUSHES):
                begin = time.perf_counter()
                os.pwrite(descriptor, bytes(FLUSH_BYTES), number * FLUSH_BYTES % FLUSH_FILE_BYTES)
                took.append(time.perf_counter() - begin)
        finally:
            os.close(descriptor)
    return median(took) * 1e6


def write(rows: Sequence[Row], samples: Samples, *, quick: bool, into: Path | None = None) -> Path:
    """Write both files; the result is the path of the Markdown one. ``into`` is the JSON of a
    result that this run continues, with the same rows and brokers."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = into.with_suffix(".md") if into else RESULTS / f"{now:%Y-%m-%dT%H%M}Z.md"
    fewest, most = samples.rounds
    rounds = f"{most}" if fewest == most else f"{fewest} to {most}"
    facts = machine() | {"disk": f"{_span(samples.flush_us)} µs for a synchronous write of 4 KiB"}
    title = f"# {now:%Y-%m-%d %H:%M} UTC, median of {rounds}" + (", quick run" if quick else "")
    listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    found = lines(rows, samples)
    path.write_text(f"{title}\n\n{listed}\n\n{table(found)}\n")
    record = {
        "time": now.isoformat(timespec="seconds"),
        "rounds": rounds,
        "quick": quick,
        "machine": facts,
        "lines": [asdict(line) for line in found],
        "samples": asdict(samples),
    }
    path.with_suffix(".json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    index()
    return path


def _span(values: Sequence[float]) -> str:
    low, high = round(min(values)), round(max(values))
    return f"{low}" if low == high else f"{low} to {high}"


def beside(found: Mapping[str, Mapping[str, Sequence[float]]], base: str = "Pulsar") -> str:
    """A table that compares Arneb with another broker, by default Apache Pulsar: medians, and the
    factor by which Arneb is better. For rates more is better, for anything else less."""
    rows = [f"| | {base} | Arneb | Arneb is better by |", "|---|---|---|---|"]
    for figure, by_name in found.items():
        theirs, ours = median(by_name[base.lower()]), median(by_name["arneb"])
        better = ours / theirs if figure.endswith("/s") else theirs / ours
        rows.append(f"| {figure} | {number(theirs)} | {number(ours)} | {better:.2g} |")
    return "\n".join(rows)


def keep(name: str, title: str, text: str) -> Path:
    """Write a textual result together with what it was measured on."""
    path = RESULTS / f"{name}-{stamp()}.md"
    facts = "\n".join(f"* {each}: {value}" for each, value in machine().items())
    path.write_text(f"# {title}\n\n{facts}\n\n{text}\n")
    index()
    return path


def keep_rounds(
    name: str, title: str, found: Mapping[str, Mapping[str, Sequence[float]]], into: Path | None
) -> Path:
    """Write :func:`beside` of all rounds, including those in ``into``, and the rounds as JSON,
    replacing ``into`` if it is given. In ``title``, ``{}`` stands for the number of rounds."""
    path = RESULTS / f"{name}-{stamp()}.json" if into is None else into
    before: dict[str, dict[str, list[float]]] = {}
    if into is not None:
        before = json.loads(into.read_text())["found"]
    figures = dict.fromkeys([*before, *found])
    joined = {
        figure: {
            each: [*before.get(figure, {}).get(each, []), *found.get(figure, {}).get(each, [])]
            for each in {**before.get(figure, {}), **found.get(figure, {})}
        }
        for figure in figures
    }
    path.write_text(json.dumps({"machine": machine(), "found": joined}, indent=1) + "\n")
    rounds = max(len(each) for by_name in joined.values() for each in by_name.values())
    facts = "\n".join(f"* {each}: {value}" for each, value in machine().items())
    text = f"# {title.format(rounds)}\n\n{facts}\n\n{beside(joined)}\n"
    path.with_suffix(".md").write_text(text)
    index()
    return path


def stamp() -> str:
    """The time now, as a part of a file name."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H%M}Z"


def index() -> None:
    """List every result, the newest first."""
    results = (each.stem for each in RESULTS.glob("*2*.md"))
    names = sorted(results, key=lambda name: name.lstrip(ascii_lowercase + "-"), reverse=True)
    listed = "\n".join(f"* [{name}]({name}.md)" for name in names)
    (RESULTS / "README.md").write_text(f"# Results\n\n{listed}\n")
