"""``arneb replay``: messages of the log once more into a topic, queue or exchange."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from arneb.cli import Refused
from arneb.commands.submitting import location, reads_the_log, runs_on_spark, submitted
from arneb.visible import visible

if TYPE_CHECKING:
    from pyspark_arneb.pipeline.replay import Plan


@click.command(short_help="Bring messages of the log into a topic, queue or exchange once more.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@reads_the_log
@click.option(
    "--from", "starting_time", metavar="TIME", help="Published at or after TIME (ISO 8601)."
)
@click.option("--until", "ending_time", metavar="TIME", help="Published before TIME.")
@click.option("--where", metavar="SQL",
              help="Of which this holds: the columns of the source, and body.")  # fmt: skip
@click.option("--sealed", metavar="DIR", help="Also what is only in this sealed tier.")
@click.option("--to-topic", metavar="NAME", help="Into this topic.")
@click.option("--to-queue", metavar="NAME", help="Into this queue.")
@click.option("--to-exchange", metavar="NAME", help="To this exchange, with their routing keys.")
@click.option("--vhost", metavar="NAME", help="Of the queue or exchange.  [default: /]")
@click.option("--to-url", metavar="URL", help="Of another broker than --url.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N",
              help="At most so many messages a second.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), required=True, metavar="FILE",
              help="Where the replay is written down, and goes on from.")  # fmt: skip
@runs_on_spark
def replay(
    topics: tuple[str, ...],
    path: str | None,
    url: str | None,
    options: tuple[str, ...],
    starting_time: str | None,
    ending_time: str | None,
    where: str | None,
    sealed: str | None,
    to_topic: str | None,
    to_queue: str | None,
    to_exchange: str | None,
    vhost: str | None,
    to_url: str | None,
    rate: float | None,
    state: Path,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Publish what is in the log of each TOPIC once more: bodies, keys, properties and event times.

    Run it again with the same --state after it was broken off: it goes on where it was, and no
    message comes twice. What is replayed is fixed when it begins.
    """
    source = location(path, url, options)
    target = {"topic": to_topic, "queue": to_queue, "exchange": to_exchange, "vhost": vhost}
    to = location(None, to_url, options) if to_url else None
    if url is None and to is None:
        raise Refused("--to-url: is needed with --path, for a broker takes the rows")
    with submitted("replay", master, conf, "replaying") as spark:
        from pyspark_arneb.pipeline import replay as job

        done = job.replay(
            spark,
            source,
            job.Choice(topics, starting_time, ending_time, where, sealed),
            job.Target({name: value for name, value in target.items() if value is not None}),
            state,
            to=to,
            pace=job.Pace(rate),
            told=show,
        )
    click.echo(visible(f"{done.written:,} of {done.messages:,} messages were replayed"))


def show(plan: "Plan") -> None:
    """One line a piece, where no bar is shown."""
    click.echo(f"{plan.done} of {len(plan.pieces)} pieces, {plan.written:,} messages", err=True)
