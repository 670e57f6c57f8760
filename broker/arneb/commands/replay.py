"""``arneb replay``: publishes messages of the log again, to a topic, queue or exchange."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arneb.cli import Refused
from arneb.commands.submitting import (
    chooses_times,
    expect_times,
    location,
    pairs,
    reads_the_log,
    runs_on_spark,
    submitted,
)
from arneb.logs.visible import visible

if TYPE_CHECKING:
    from pyspark_arneb.pipeline.progress import Count
    from pyspark_arneb.pipeline.replay_plan import Plan


@click.command(short_help="Publish messages of the log again.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@reads_the_log
@chooses_times
@click.option("--where", metavar="SQL",
              help="Only messages that match; columns of the source, and body.")  # fmt: skip
@click.option(
    "--sealed", metavar="DIR", help="Read this sealed tier too; without a log, only this."
)
@click.option("--to-topic", metavar="NAME", help="Publish to this topic.")
@click.option("--to-queue", metavar="NAME", help="Publish to this queue.")
@click.option(
    "--to-exchange", metavar="NAME", help="Publish to this exchange, with the same routing keys."
)
@click.option("--vhost", metavar="NAME", help="The queue's or exchange's vhost.  [default: /]")
@click.option("--to-url", metavar="URL", help="Publish to this broker.  [default: --url]")
@click.option("--to-option", "to_options", multiple=True, metavar="NAME=VALUE",
              help="An option of the sink, such as a token; may be repeated.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N",
              help="At most N messages a second.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), required=True, metavar="FILE",
              help="Records how far the replay has come.")  # fmt: skip
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
    to_options: tuple[str, ...],
    rate: float | None,
    state: Path,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Publish the messages in the log of each TOPIC again, with their bodies, keys, properties and
    event times.

    After an interruption, run it again with the same --state: it continues where it stopped, and
    publishes no message twice. What is replayed is decided when it begins.
    """
    expect_times(starting_time, ending_time)
    if url is None and to_url is None:
        raise Refused(
            "--to-url: is needed without --url, because rows are written through a broker"
        )
    if not (path or url) and sealed is None:
        raise Refused("expected --path, --url or --sealed, where the messages are")
    source = location(path, url, options) if path or url else None
    given = pairs("--to-option", to_options)
    proof = {name: value for name, value in given.items() if name.startswith("service.")}
    named = {"topic": to_topic, "queue": to_queue, "exchange": to_exchange, "vhost": vhost}
    target = {name: value for name, value in named.items() if value is not None}
    target |= {name: value for name, value in given.items() if name not in proof}
    to = None
    if to_url is not None or proof:
        to = location(None, to_url or url, [f"{name}={value}" for name, value in proof.items()])
    from pyspark_arneb.pipeline import replay as job
    from pyspark_arneb.pipeline.progress import counted, on_terminal

    with submitted("replay", master, conf) as spark, counted("replaying", "messages") as count:
        done = job.replay(
            spark,
            source,
            job.Choice(topics, starting_time, ending_time, where, sealed),
            job.Target(target),
            state,
            to=to,
            pace=job.Pace(rate),
            progress=_shows(count) if on_terminal() else _says,
        )
    click.echo(visible(f"{done.written:,} of {done.messages:,} messages were replayed"))


def _shows(count: "Count") -> Callable[["Plan"], None]:
    return lambda plan: count(plan.read, plan.messages)


def _says(plan: "Plan") -> None:
    """Print a line for each piece, if no bar is shown."""
    click.echo(
        f"{plan.read:,} of {plan.messages:,} messages read, {plan.written:,} replayed", err=True
    )
