"""``arneb ctl cluster re-found``: starts a cluster's log afresh from the best directory that is
left.

The rule: without ``--yes`` it only prints what there is and what it would do.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

EXPLAINED: Final = """\
A new history begins with what this directory has. What others had beyond that is lost, and what the
log topic holds is no longer used. It is for when the topic is lost, was recreated, or ends before
what the directories have.

1. Stop all nodes, and run this on the data directory of each. Go on with the one of the highest
   record; of a shard that still has its topic, start its nodes instead.
2. Run it there with --yes.
3. Delete the topic, and those beside it:
   pulsar-admin topics delete --force persistent://NAMESPACE/SHARD
   pulsar-admin topics delete --force persistent://NAMESPACE/SHARD-members
4. Start that node, alone, and wait until it leads.
5. Move the data directories of the others away, and start them: each takes a copy."""


@click.command(name="re-found", short_help="Start a cluster again from one directory.")
@click.option(
    "--data-dir", "directory", required=True, metavar="DIR", type=click.Path(path_type=Path),
    help="The data directory of a stopped node.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do it, instead of only saying what would be done.")
def re_found_command(directory: Path, yes: bool) -> None:
    """Start a cluster again, with a new log, from the data directory DIR, which no broker has open.

    Exit status 2: DIR is in use, or is not a data directory.
    """
    from arneb_cluster.founding import applied_in, re_found
    from arneb_cluster.protocol.values import Applied
    from arneb_core.api.errors import CommitFailed, StoreUnusable

    def shown(applied: Applied) -> str:
        if not applied.history:
            return "a directory that was in no cluster"
        at = datetime.fromtimestamp(applied.stamp_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        of = f" of {at} UTC" if applied.stamp_ms else ""
        return f"record {applied.link.number}{of}, history {applied.history}"

    try:
        before = applied_in(directory)
        click.echo(visible(f"{directory}: {shown(before)}"))
        if not yes:
            click.echo()
            click.echo(EXPLAINED)
            click.echo()
            click.echo("Nothing was changed.")
            return
        founded = re_found(directory)
    except (StoreUnusable, CommitFailed) as error:
        raise Refused(str(error)) from error
    click.echo(visible(f"{directory}: {shown(founded)} begins with that"))
    click.echo("Delete the log topic before this node is started, and start it before the others.")
