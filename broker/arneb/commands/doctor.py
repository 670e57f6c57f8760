"""``arneb doctor``: reports what is wrong with a broker or its data, and what to do."""

import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

ILL: Final = 1
"""The exit status if there is something to do."""

ANSWER_S: Final = 20.0
"""The longest wait for one answer."""


@click.command(short_help="Report what is wrong with a broker or its data, and what to do.")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--data-dir", "named", metavar="DIR", type=click.Path(path_type=Path),
              help="The same as DIR.")  # fmt: skip
@click.option(
    "--url", metavar="URL", help="Ask a broker over HTTP: http://USER:PASSWORD@HOST:PORT."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text",
              help="Lines of text, or one JSON object.")  # fmt: skip
@click.pass_context
def doctor(
    context: click.Context, directory: Path | None, named: Path | None, url: str | None, form: str
) -> None:
    """Examine the broker that runs on the data directory DIR, or DIR alone if none does. Without
    DIR or a URL, ARNEB_DATA_DIR or ARNEB_URL names the broker.

    Exit status 0: nothing to do, or notes only. 1: something is wrong, or soon will be.
    2: neither a broker nor a directory could be examined.
    """
    from arneb.ctl.calling import Caller, HttpCaller, SocketCaller, Unreachable
    from arneb.ctl.exits import Failed
    from arneb.ctl.output import Manner, Output
    from arneb.ctl.session import Misused, Session
    from arneb.doctor.directory import directory_findings, outside_findings
    from arneb.doctor.findings import Finding, Severity
    from arneb.doctor.running import running_findings, silent

    directory, url = _place(directory, named, url)

    def looked() -> Iterator[Finding]:
        caller: Caller = (
            HttpCaller(url, timeout_s=ANSWER_S)
            if directory is None
            else SocketCaller(directory, ANSWER_S)
        )
        session = Session(caller, Output(click.echo, Manner()))
        try:
            found = list(running_findings(session))
        except Unreachable as error:
            if directory is None:
                raise Refused(str(error)) from error
            return directory_findings(directory)
        except TimeoutError:
            where = url.rpartition("@")[2] if directory is None else str(directory)
            found = [silent(where, ANSWER_S)]
        except (Failed, Misused) as error:
            raise Refused(error.text.removeprefix("Error:").strip()) from error
        return chain(found, () if directory is None else outside_findings(directory))

    found = sorted(looked(), key=lambda each: -each.severity)
    if form == "json":
        click.echo(json.dumps({"findings": [each.document() for each in found]}, indent=2))
    else:
        for each in found:
            subject = f" ({each.subject})" if each.subject else ""
            click.echo(visible(f"{each.severity.word}: {each.what}{subject}"))
            click.echo(visible(f"  do: {each.do}"))
        if not found:
            click.echo("nothing is wrong")
    context.exit(ILL if any(each.severity > Severity.NOTE for each in found) else 0)


def _place(directory: Path | None, named: Path | None, url: str | None) -> tuple[Path | None, str]:
    """Return where to look: a directory, or else a URL. The command line wins over the
    environment."""
    given = [each for each in (directory, named, url) if each is not None]
    if len(given) > 1:
        raise Refused("expected exactly one of DIR and --url URL")
    if given:
        return directory or named, url or ""
    if found := os.environ.get("ARNEB_DATA_DIR"):
        return Path(found), ""
    if found := os.environ.get("ARNEB_URL"):
        return None, found
    raise Refused(
        "where is the broker? Say so by DIR or ARNEB_DATA_DIR, or from elsewhere by "
        "--url http://USER:PASSWORD@HOST:PORT or ARNEB_URL"
    )
