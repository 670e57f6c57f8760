"""``arneb topics``: lists topics, subscriptions and backlogs of a broker or a directory."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from arneb.cli import Refused
from arneb.commands.asking import ask, unlike
from arneb.logs.visible import visible

PATH: Final = "/api/topics"
WIDTH_WITHOUT_TERMINAL: Final = 10_000
"""The width of output that programs read, so that nothing is cut."""

Documents = list[dict[str, Any]]


@click.command(short_help="List topics with their backlog.")
@click.argument("source", metavar="DIR|URL")
def topics(source: str) -> None:
    """List every topic and subscription in a data directory, or of the broker at URL.

    The directory's broker may be running; the list shows what is on disk.
    """
    show(from_url(source) if "://" in source else from_directory(Path(source)))


def from_url(url: str) -> Documents:
    """Return the topics as a broker's HTTP port describes them."""
    try:
        found: Documents = ask(url, PATH)["topics"]
        for document in found:
            deque(_rows(document), maxlen=0)  # raises for a document that we cannot print
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unlike(url) from error
    return found


def from_directory(path: Path) -> Documents:
    """Return the topics in a data directory, as of one commit."""
    from arneb.store.statistics import stored_topics
    from arneb_core.api.errors import StoreDamaged, StoreUnusable

    try:
        return stored_topics(path)
    except StoreDamaged as error:
        raise Refused(f"{path} is damaged ({error}); see `arneb check {path}`") from error
    except StoreUnusable as error:
        raise Refused(str(error)) from error


def show(documents: Documents) -> None:
    """Print one line for each subscription, and for each topic without one."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TOPIC", no_wrap=True)
    for heading in ("MESSAGES", "BYTES", "LEDGERS"):
        table.add_column(heading, justify="right")
    table.add_column("SUBSCRIPTION", no_wrap=True)
    table.add_column("TYPE")
    for heading in ("CONSUMERS", "IN FLIGHT", "BACKLOG"):
        table.add_column(heading, justify="right")
    for document in documents:
        for row in _rows(document):
            table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    console.print(table)


def _rows(topic: dict[str, Any]) -> Iterable[list[str]]:
    head = [
        visible(topic["name"]),
        *(f"{topic[each]:,}" for each in ("messages", "bytes", "ledgers")),
    ]
    subscriptions = topic["subscriptions"]
    if not subscriptions:
        yield [*head, *["-"] * 5]
    for subscription in subscriptions:
        counts = ("consumers", "in_flight_messages", "backlog_entries")
        yield [
            *head,
            visible(subscription["name"]),
            subscription["type"] or "-",
            *(f"{subscription[each]:,}" for each in counts),
        ]
