"""``arneb erase``: what was published with a key goes from the sealed tier."""

from time import time_ns

import click

from arneb.cli import Refused
from arneb.commands.lake_places import lake_target, refusing


@click.command(short_help="Erase what was published with a key from the sealed tier.")
@click.argument("target", metavar="TARGET")
@click.argument("topic", metavar="TOPIC")
@click.option("--key", "keys", multiple=True, required=True, metavar="KEY",
              help="A partition key or routing key; may be repeated.")  # fmt: skip
@click.option("--storage", multiple=True, metavar="KEY=VALUE",
              help="A setting of the object store.")  # fmt: skip
def erase(target: str, topic: str, keys: tuple[str, ...], storage: tuple[str, ...]) -> None:
    """Delete every row of TOPIC with KEY that was published up to now from the table below TARGET,
    and the files that held it. What is still in the log goes when its ledger is sealed; there it
    stays until it is trimmed.

    Queries that read the old files meanwhile fail. May be repeated. Exit status 2: it is not done.
    """
    place = lake_target(target, storage)
    from pyspark_arneb.lake.erasure import ErasedKeys, forget
    from pyspark_arneb.lake.erasure import erase as erase_rows
    from pyspark_arneb.lake.table import SealedTable
    from pyspark_arneb.log.topics import full_name

    try:
        name = full_name(topic)
    except ValueError as error:
        raise Refused(str(error)) from error
    with refusing():
        table = SealedTable.open(place, name)
        if table is None:
            raise Refused(f"{place} has no table of {name}")
        erased = ErasedKeys.from_now((key.encode() for key in keys), time_ns() // 1_000_000)
        erased.write_down(table.target)
        rows = erase_rows(table, erased)
        files = forget(table)
    click.echo(f"{rows:,} rows erased, {files:,} files deleted")
