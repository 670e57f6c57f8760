"""``arneb offload``: writes closed ledgers to the sealed tier, once or as a service."""

import signal
from threading import Event
from typing import TYPE_CHECKING, Final

import click

from arneb.cli import Refused
from arneb.commands.lake_places import (
    broker_address,
    is_broker,
    lake_target,
    log_location,
    refusing,
)
from arneb.logs.visible import visible

if TYPE_CHECKING:
    from pyspark_arneb.lake.offload import Done, Offload
    from pyspark_arneb.lake.sealing import Sealed
    from pyspark_arneb.lake.trim_guard import TrimGuard
    from pyspark_arneb.log.topics import TopicSelection
    from pyspark_arneb.pipeline.progress import Count

PAUSE_S_MAX: Final = 60.0
"""The longest pause after a failed round of a service; pauses double up to it."""

ON_CORRUPT: Final = ("fail", "skip", "raw")
COMPRESSIONS: Final = ("zstd", "snappy", "lz4", "none")


@click.command(short_help="Write closed ledgers to Delta tables, each exactly once.")
@click.argument("log", metavar="DIR|URL")
@click.argument("target", metavar="TARGET")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("--topics-pattern", metavar="REGEX", help="Topics whose names match.")
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C or SIGTERM.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
              metavar="SECONDS", help="Pause between rounds, with --follow.")  # fmt: skip
@click.option("--roll", is_flag=True, help="Close open ledgers first. Needs a broker.")
@click.option("--roll-after", type=click.FloatRange(min=1), metavar="SECONDS",
              help="Close ledgers that have been open for so long. Needs a broker.")  # fmt: skip
@click.option("--trim", is_flag=True,
              help="Trim what is written, despite retention. Needs a broker.")  # fmt: skip
@click.option("--cursor", metavar="NAME", default="arneb-lake", show_default=True,
              help="The subscription that keeps what is not written yet.")  # fmt: skip
@click.option("--merge/--no-merge", default=True,
              help="Merge the files of small ledgers.  [default: merge]")  # fmt: skip
@click.option("--compression", type=click.Choice(COMPRESSIONS), default=COMPRESSIONS[0],
              show_default=True, help="Compression of the data files.")  # fmt: skip
@click.option("--skip-lost", is_flag=True, help="Continue without entries that are lost.")
@click.option("--on-corrupt", type=click.Choice(ON_CORRUPT), default=ON_CORRUPT[0],
              show_default=True, help="Damaged blocks: stop, skip, or write as bytes.")  # fmt: skip
@click.option("--storage", multiple=True, metavar="KEY=VALUE",
              help="A setting of the object store, such as aws_region=eu-central-1.")  # fmt: skip
def offload(
    log: str,
    target: str,
    topics: tuple[str, ...],
    topics_pattern: str | None,
    follow: bool,
    interval: float,
    merge: bool,
    compression: str,
    roll: bool,
    roll_after: float | None,
    trim: bool,
    cursor: str,
    skip_lost: bool,
    on_corrupt: str,
    storage: tuple[str, ...],
) -> None:
    """Write the closed ledgers of each TOPIC, or of all topics, to Delta tables below TARGET, one
    table per topic. The log is in the data directory DIR, or belongs to the broker at URL. TARGET
    is a directory, or a URI such as s3://BUCKET/PATH.

    Each ledger is written once, read back, compared with the log, and then committed. After a kill
    at any instant, run it again: it continues where it stopped. A durable subscription, which only
    this target advances, makes a broker keep what is not written yet. Exit status 2: it cannot
    continue.
    """
    tier = lake_target(target, storage)
    from pyspark_arneb.lake.offload import Offload, OffloadOptions
    from pyspark_arneb.options import OnCorrupt

    chosen = _chosen(topics, topics_pattern)
    options = OffloadOptions(
        trim=trim,
        roll=roll,
        roll_after_s=roll_after,
        merge=merge,
        compression=compression,
        skip_lost=skip_lost,
        on_corrupt=OnCorrupt(on_corrupt),
    )
    guard = _guard(log, cursor, needs_broker=bool(roll or roll_after or trim))
    bar = _Bar()
    work = Offload(log_location(log), tier, chosen, guard, options, bar.went, bar.expected)
    done = _run(work, bar, interval if follow else None)
    ledgers = "1 ledger" if done.ledgers == 1 else f"{done.ledgers:,} ledgers"
    click.echo(f"{ledgers}, {done.rows:,} rows, {done.bytes:,} bytes")


def _chosen(topics: tuple[str, ...], pattern: str | None) -> "TopicSelection":
    from pyspark_arneb.log.topics import TopicSelection, full_name

    if topics and pattern:
        raise Refused("give topics or --topics-pattern, not both")
    try:
        if topics:
            return TopicSelection(tuple(map(full_name, topics)))
        return TopicSelection(pattern=pattern or ".*")
    except ValueError as error:
        raise Refused(str(error)) from error


def _guard(log: str, cursor: str, *, needs_broker: bool) -> "TrimGuard":
    """Return what makes the broker at ``log`` keep what is not written yet. A directory without a
    broker has no such thing."""
    from pyspark_arneb.lake.cursor_guard import CursorGuard
    from pyspark_arneb.lake.trim_guard import NoGuard

    if is_broker(log):
        return CursorGuard(broker_address(log), cursor)
    if needs_broker:
        raise Refused(f"--roll, --roll-after and --trim need a broker's URL, got {log}")
    return NoGuard()


def _run(work: "Offload", bar: "_Bar", interval_s: float | None) -> "Done":
    """Run one round, or rounds until a signal, ``interval_s`` apart; return what they did."""
    from pyspark_arneb.pipeline.progress import counted

    stopped = Event()

    def stop(number: int, frame: object) -> None:
        stopped.set()
        work.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with refusing(), counted("offloading", "rows") as bar.count:
            done = work.round()
        return done if interval_s is None else _follow(work, interval_s, stopped, done)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(work: "Offload", interval_s: float, stopped: Event, done: "Done") -> "Done":
    """Run rounds until stopped; return what they did, added to ``done``. A failure here may be
    temporary: it is reported, and the round is repeated."""
    failures = 0
    while not stopped.wait(min(interval_s * 2**failures, max(interval_s, PAUSE_S_MAX))):
        try:
            with refusing():
                done += work.round()
            failures = 0
        except Refused as error:
            failures += 1
            click.echo(f"arneb: {visible(error.format_message())}; trying again", err=True)
    return done


class _Bar:
    """Shows the progress of a round on a terminal, and prints a line for each sealed part."""

    def __init__(self) -> None:
        self.count: Count = lambda done, total: None
        self._rows = 0
        self._rows_expected = 0

    def expected(self, rows: int) -> None:
        """Count rows that are to be written."""
        self._rows_expected += rows
        self.count(self._rows, self._rows_expected)

    def went(self, sealed: "Sealed") -> None:
        """Count and print what was written."""
        self._rows += sealed.rows
        self.count(self._rows, self._rows_expected)
        _say(sealed)


def _say(sealed: "Sealed") -> None:
    ledgers = f"ledgers {sealed.first} to {sealed.last}"
    if sealed.first == sealed.last:
        ledgers = f"ledger {sealed.first}"
    click.echo(
        visible(f"{sealed.log.topic}: {ledgers}, {sealed.rows:,} rows, {sealed.bytes:,} bytes")
    )
