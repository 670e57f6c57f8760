"""Submitting: the options, session and errors of commands that run on Spark.

The rule: a command only reads its options; a function of :mod:`pyspark_arneb.pipeline` does the
work, on the Spark that ``--master`` names. Every error is one line for the user.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from arneb.cli import Refused
from arneb.commands.lake_places import refusing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_arneb.pipeline.location import Location

Command = TypeVar("Command", bound=Callable[..., Any])

LOCAL: Final = "local[*]"
MASTER: Final = click.option(
    "--master", default=LOCAL, metavar="MASTER", show_default=True,
    help="Spark master: local[N], spark://HOST:PORT, yarn, k8s://HOST, sc://HOST:PORT.",
)  # fmt: skip
CONF: Final = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated.",
)  # fmt: skip
PATH: Final = click.option("--path", metavar="DIR", help="Read the log in this data directory.")
URL: Final = click.option(
    "--url", metavar="URL", help="Read the log from a broker, by its HTTP port."
)
FROM: Final = click.option(
    "--from", "starting_time", metavar="TIME", help="Published at or after TIME (ISO 8601).",
)  # fmt: skip
UNTIL: Final = click.option("--until", "ending_time", metavar="TIME", help="Published before TIME.")
OPTION: Final = click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE",
    help="An option of the Spark source, such as a token; may be repeated.",
)  # fmt: skip


def runs_on_spark(command: Command) -> Command:
    """Add the options that name a Spark."""
    return MASTER(CONF(command))


def reads_the_log(command: Command) -> Command:
    """Add the options that name the log."""
    return PATH(URL(OPTION(command)))


def chooses_times(command: Command) -> Command:
    """Add the options for the first and last time."""
    return FROM(UNTIL(command))


def expect_times(starting: str | None, ending: str | None) -> None:
    """Raise :class:`Refused` for an invalid time, or an end that is not after the start."""
    _check_spark()
    from pyspark_arneb.option_values import time_ms

    found: dict[str, int] = {}
    for name, text in {"--from": starting, "--until": ending}.items():
        try:
            if text is not None:
                found[name] = time_ms(UTC)(text)
        except ValueError as error:
            raise Refused(f"{name}: {error}") from error
    if starting and ending and found["--from"] >= found["--until"]:
        raise Refused(f"--until: expected a time after {starting}, got {ending}")


def pairs(name: str, given: Sequence[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` options as a mapping. Raises :class:`Refused`."""
    found: dict[str, str] = {}
    for each in given:
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise Refused(f"{name}: expected NAME=VALUE, got {each}")
        found[key] = value
    return found


def location(
    path: str | None, url: str | None, options: Sequence[str], master: str = LOCAL
) -> "Location":
    """Return the log's location, as Spark on ``master`` reads it. Raises :class:`Refused`."""
    _check_spark()
    from pyspark_arneb.pipeline.location import Location
    from pyspark_arneb.pipeline.session import JobFailed, is_remote

    try:
        return Location(path, url, pairs("--option", options), is_remote(master))
    except JobFailed as error:
        raise Refused(str(error)) from error


@contextmanager
def submitted(
    name: str, master: str, conf: Sequence[str], title: str | None = None
) -> Iterator["SparkSession"]:
    """Open a Spark session for the command ``name`` while the block runs, with a progress bar if
    there is a ``title``."""
    _check_spark()
    from pyspark_arneb.pipeline.progress import progress_bar
    from pyspark_arneb.pipeline.session import JobFailed, spark_session

    settings = pairs("--conf", conf)
    try:
        with refusing(), spark_session(f"arneb {name}", master, settings) as spark:
            if title is None:
                yield spark
            else:
                with progress_bar(spark, title):
                    yield spark
    except JobFailed as error:
        raise Refused(str(error)) from error


def _check_spark() -> None:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise Refused(
            "this command runs on Spark, which is not installed: pip install 'arneb[spark]'"
        )
