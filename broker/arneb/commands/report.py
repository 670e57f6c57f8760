"""``arneb report``: reports what is in the log, as a table in the terminal and as a page."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table

from arneb.cli import Refused
from arneb.commands.submitting import (
    chooses_times,
    expect_times,
    location,
    reads_the_log,
    runs_on_spark,
    submitted,
)
from arneb.logs.visible import visible

if TYPE_CHECKING:
    from pyspark_arneb.pipeline.report import HistoryReport, Report, TopicReport

NAME_WIDTH: Final = 16
"""The least width of the column with topic names; longer names are wrapped, never cut."""

WIDTH_ELSEWHERE: Final = 180
"""The width of output that does not go to a terminal, in characters."""


@click.command(short_help="Show rates, sizes, dead letters, hot keys and latencies.")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@reads_the_log
@chooses_times
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE",
              help="Write an HTML page with plots too.")  # fmt: skip
@runs_on_spark
def report(
    topics: tuple[str, ...],
    path: str | None,
    url: str | None,
    options: tuple[str, ...],
    starting_time: str | None,
    ending_time: str | None,
    html: Path | None,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Report on the messages in the log of each TOPIC, or of all topics: their number, rates and
    sizes, why some are dead letters, which keys are hot. For queues with a history (x-history),
    also how long messages took to be delivered and acknowledged.
    """
    expect_times(starting_time, ending_time)
    where = location(path, url, options, master)
    with submitted("report", master, conf, "reading") as spark:
        from pyspark_arneb.pipeline import report as job

        made = job.report(
            spark, where, topics, starting_time=starting_time, ending_time=ending_time
        )
    show(made)
    if html is not None:
        from pyspark_arneb.pipeline.report_page import page

        try:
            html.write_text(page(made, datetime.now(UTC)), encoding="utf-8")
        except OSError as error:
            raise Refused(f"--html: cannot write {html}: {error.strerror}") from error
        click.echo(visible(f"{html}: written"), err=True)


def show(made: "Report") -> None:
    """Print a table of topics, and one of histories if there are any."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_ELSEWHERE)
    table = Table(box=None, header_style="bold")
    table.add_column("topic", min_width=NAME_WIDTH, overflow="fold")
    for name in ("messages", "bytes", "a second", "peak", "p50 B", "p99 B"):
        table.add_column(name, justify="right")
    for name in ("dead letters", "hottest keys"):
        table.add_column(name)
    for topic in made.topics:
        table.add_row(*_cells(topic))
    console.print(table)
    if made.histories:
        table = Table(box=None, header_style="bold")
        table.add_column("history", min_width=NAME_WIDTH, overflow="fold")
        for name in ("delivered", "again", "acked", "returned", "ack p50 ms", "p99", "most"):
            table.add_column(name, justify="right")
        table.add_column("departed")
        for history in made.histories:
            table.add_row(*_history_cells(history))
        console.print(table)


def _cells(topic: "TopicReport") -> list[str]:
    dead = ", ".join(f"{reason} {count:,}" for reason, count in topic.dead_letters.items())
    keys = ", ".join(f"{visible(key)} {count:,}" for key, count in topic.hot_keys[:3])
    return [
        visible(topic.topic.removeprefix("persistent://public/default/")),
        f"{topic.messages:,}",
        f"{topic.bytes:,}",
        f"{topic.per_s:,.1f}",
        f"{topic.peak_per_s:,.1f}",
        f"{topic.size_bytes.p50:,}",
        f"{topic.size_bytes.p99:,}",
        dead,
        keys,
    ]


def _history_cells(history: "HistoryReport") -> list[str]:
    figures = (
        history.delivered,
        history.redelivered,
        history.acknowledged,
        history.returned,
        history.to_ack_ms.p50,
        history.to_ack_ms.p99,
        history.to_ack_ms.most,
    )
    departed = ", ".join(f"{reason} {count:,}" for reason, count in history.departed.items())
    where = visible(history.where.removeprefix("persistent://public/default/"))
    return [where, *(f"{figure:,}" for figure in figures), departed]
