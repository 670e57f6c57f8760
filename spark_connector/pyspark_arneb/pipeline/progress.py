"""Progress: a bar for a long job, on a terminal and nowhere else.

The rule: it only looks. A job runs on as it would without it, and a bar that cannot be had (Spark
Connect tells of no stages before it has answered) is a clock.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.2

Count = Callable[[int, int], None]
"""Is told how much is done and of how much; both may grow."""


def on_terminal() -> bool:
    """Whether there is somebody to look at a bar."""
    return Console(stderr=True).is_terminal


@contextmanager
def counted(title: str, unit: str, *, shown: bool | None = None) -> Iterator[Count]:
    """A bar under ``title`` while the block lasts, of what it is told, in ``unit``. ``shown``:
    None = if standard error is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with _bar(columns, title, shown) as count:
        yield count or (lambda done, total: None)


@contextmanager
def progress_bar(spark: "SparkSession", title: str, *, shown: bool | None = None) -> Iterator[None]:
    """A bar under ``title`` while the block lasts, of all tasks of the stages that it starts.
    ``shown``: None = if standard error is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    over = Event()
    with _bar(columns, title, shown) as count:
        if count is None:
            yield
            return
        watcher = Thread(target=_watch, args=(spark, count, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


@contextmanager
def _bar(
    columns: tuple[ProgressColumn, ...], title: str, shown: bool | None
) -> Iterator[Count | None]:
    """None where no bar is shown."""
    if not (on_terminal() if shown is None else shown):
        yield None
        return
    # What goes to a file goes there, whatever the terminal shows.
    redirected = sys.stdout.isatty()
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=redirected
    ) as progress:
        task = progress.add_task(title, total=None)

        def count(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield count


def _watch(spark: "SparkSession", count: Count, over: Event) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:
        return  # Spark Connect has none
    seen: dict[int, tuple[int, int]] = {}
    while not over.wait(LOOK_S):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                seen[stage] = info.numCompletedTasks, info.numTasks
        if seen:
            active = set(tracker.getActiveStageIds())
            done = sum(n if each in active else total for each, (n, total) in seen.items())
            count(done, sum(total for _, total in seen.values()))
