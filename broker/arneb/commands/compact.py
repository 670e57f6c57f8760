"""``arneb compact``: copies the last message of each key to a new topic or a table."""

import click

from arneb.commands.submitting import location, reads_the_log, runs_on_spark, submitted
from arneb.logs.visible import visible


@click.command(short_help="Copy the last message of each key to a new topic or table.")
@click.argument("topic", metavar="TOPIC")
@reads_the_log
@click.option("--into-topic", metavar="NAME", help="Write to this new topic (needs --url).")
@click.option("--into-table", metavar="DIR", help="Write a table to this new directory or URI.")
@click.option("--format", "table_format", default="parquet", show_default=True, metavar="FORMAT",
              help="Format of the table: parquet, orc, json or delta.")  # fmt: skip
@click.option("--keep-unkeyed", is_flag=True, help="Copy messages without a key too.")
@runs_on_spark
def compact(
    topic: str,
    path: str | None,
    url: str | None,
    options: tuple[str, ...],
    into_topic: str | None,
    into_table: str | None,
    table_format: str,
    keep_unkeyed: bool,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Copy the last message of each key of TOPIC, in log order; of a partitioned topic, of each key
    in each partition. A message without a body is a tombstone: its key is left out. TOPIC itself
    is not changed.
    """
    where = location(path, url, options, master)
    with submitted("compact", master, conf, "compacting") as spark:
        from pyspark_arneb.pipeline import compact as job

        done = job.compact(
            spark,
            where,
            topic,
            into_topic=into_topic,
            into_table=into_table,
            table_format=table_format,
            keeps_unkeyed=keep_unkeyed,
        )
    click.echo(visible(f"{into_topic or into_table}: {done.kept:,} of {done.read:,} messages"))
