"""``arneb audit``: checks histories against what a broker promises."""

import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from arneb.cli import Refused
from arneb.commands.submitting import location, reads_the_log, runs_on_spark, submitted
from arneb.logs.visible import visible

if TYPE_CHECKING:
    from pyspark_arneb.pipeline.audit import Audited

FOUND_STATUS = 1


@click.command(short_help="Check histories against the broker's promises.")
@reads_the_log
@click.option("--queue", metavar="NAME", help="Only the history of this queue.")
@click.option("--topic", metavar="NAME", help="The history kept in this topic.")
@click.option("--client-history", "files", multiple=True, metavar="FILE",
              help="Histories that clients wrote (JSON lines); may be repeated.")  # fmt: skip
@click.option(
    "--drained", is_flag=True, help="The queues were drained: what was not received is lost."
)
@click.option("--exactly-once", is_flag=True, help="No message may be received twice.")
@click.option(
    "--ignore", multiple=True, metavar="KIND", help="Ignore this kind of anomaly; may be repeated."
)
@runs_on_spark
def audit(
    path: str | None,
    url: str | None,
    options: tuple[str, ...],
    queue: str | None,
    topic: str | None,
    files: tuple[str, ...],
    drained: bool,
    exactly_once: bool,
    ignore: tuple[str, ...],
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Check histories for lost, duplicated and reordered messages, and name each anomaly.

    Histories are kept by the broker (queues with x-history), or written by clients.

    Exit status 0: nothing found. 1: anomalies, one per line. 2: the audit failed.
    """
    if bool(files) == bool(path or url):
        raise Refused("expected --path or --url, or else --client-history")
    if topic and queue:
        raise Refused("--topic: expected a queue or a topic, got both")
    if (drained or exactly_once) and not files:
        raise Refused("--drained, --exactly-once: are about histories that clients wrote")
    if queue:
        from arneb_core.api.topics.history import history_topic

        topic = history_topic(queue, "amqp")
    where = None if files else location(path, url, options, master)
    with submitted("audit", master, conf, "auditing") as spark:
        from pyspark_arneb.pipeline.audit import audit_broker, audit_clients

        if where is None:
            found = audit_clients(spark, list(files), drained=drained, exactly_once=exactly_once)
        else:
            found = audit_broker(spark, where, topic)
    sys.exit(show(found.without(ignore)))


def show(found: "Audited") -> int:
    """Print what was found; return the exit status."""
    if not found.looked_at:
        raise Refused("there is no history: declare the queue with x-history, or name the files")
    for each in found.anomalies:
        click.echo(visible(str(each)))
    table = Table("looked at", "", box=None)
    for name, count in sorted(found.looked_at.items()):
        table.add_row(name, f"{count:,}")
    table.add_section()
    for name, count in sorted(found.counts.items()):
        table.add_row(f"[bold red]{name}", f"{count:,}")
    Console(stderr=True).print(table)
    if found.is_clean:
        click.echo("no anomalies", err=True)
    return 0 if found.is_clean else FOUND_STATUS
