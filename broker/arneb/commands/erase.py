"""``arneb erase``: removes everything published with a key from the sealed tier."""

from time import time_ns

import click

from arneb.cli import Refused
from arneb.commands.lake_places import lake_target, refusing


@click.command(short_help="Erase a key's messages from the sealed tier.")
@click.argument("target", metavar="TARGET")
@click.argument("topic", metavar="TOPIC")
@click.option("--key", "keys", multiple=True, required=True, metavar="KEY",
              help="A partition key or routing key; may be repeated.")  # fmt: skip
@click.option("--storage", multiple=True, metavar="KEY=VALUE",
              help="A setting of the object store.")  # fmt: skip
def erase(target: str, topic: str, keys: tuple[str, ...], storage: tuple[str, ...]) -> None:
    """Delete every row of TOPIC with KEY published so far from the table below TARGET, and delete
    the files that held those rows. Messages still in the log are left out when their ledger is
    sealed; in the log they stay until they are trimmed.

    Queries that are reading the old files fail. The command may be repeated. Exit status 2: it
    failed.
    """
    tier = lake_target(target, storage)
    from pyspark_arneb.lake.erasure import ErasedKeys, forget
    from pyspark_arneb.lake.erasure import erase as erase_rows
    from pyspark_arneb.lake.table import SealedTable
    from pyspark_arneb.log.topics import full_name

    try:
        name = full_name(topic)
    except ValueError as error:
        raise Refused(str(error)) from error
    with refusing():
        table = SealedTable.open(tier, name)
        if table is None:
            raise Refused(f"{tier} has no table of {name}")
        erased = ErasedKeys.from_now((key.encode() for key in keys), time_ns() // 1_000_000)
        erased.write_down(table.target)
        rows = erase_rows(table, erased)
        files = forget(table)
    click.echo(f"{rows:,} rows erased, {files:,} files deleted")
