"""Text: metrics of very many objects in Prometheus' text format, piece by piece.

The rule: the text is written here and not by the client library, which makes an object of each
sample and takes ten times the memory and time. Single figures are left to the library.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

LINES_PER_PART: Final = 1000
"""The lines of one part: about a millisecond of the event loop."""

ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
"""Escapes inside quotes in the text format."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One field of a statistics class, and how it is shown.

    A field that ends in ``_total`` only ever grows while the broker runs: a counter.
    """

    field: str
    help: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, and what it means. One that ends in ``_total`` only ever grows while the broker
    runs: a counter; unless Pulsar calls something so that ``falls``."""

    name: str
    help: str
    falls: bool = False

    @property
    def kind(self) -> str:
        """The metric's type in the text format."""
        return "counter" if self.name.endswith("_total") and not self.falls else "gauge"

    def head(self, prefix: str) -> str:
        """Return the lines before its samples."""
        name = f"{prefix}{self.name}"
        return f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n"


def labelled(**values: str) -> str:
    """Return labels as written after a name."""
    texts = [f'{name}="{value.translate(ESCAPED)}"' for name, value in values.items()]
    return f"{{{','.join(texts)}}}"


def samples(
    metric: Metric, prefix: str, labels: Sequence[str], values: Sequence[float]
) -> Iterator[str]:
    """Yield a metric of many objects, in parts."""
    yield metric.head(prefix)
    name = f"{prefix}{metric.name}"
    for start in range(0, len(labels), LINES_PER_PART):
        end = start + LINES_PER_PART
        yield "".join(
            f"{name}{each} {value}\n"
            for each, value in zip(labels[start:end], values[start:end], strict=True)
        )


class Columns:
    """Metrics of many objects: a column of numbers for each, and the labels of each row."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self.labels: list[str] = []
        self._columns = [array("d") for _ in metrics]

    def __repr__(self) -> str:
        return f"<Columns of {len(self.metrics)} metrics, {len(self.labels)} rows>"

    def add(self, labels: str, values: Iterable[float]) -> None:
        """Add a row."""
        self.labels.append(labels)
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def lines(self, prefix: str) -> Iterator[str]:
        """Yield the text of all metrics, in parts."""
        for metric, column in zip(self.metrics, self._columns, strict=True):
            yield from samples(metric, prefix, self.labels, column)
