"""Progress: a bar for what Spark is doing, on a terminal and nowhere else.

The rule: it only looks. A job runs on as it would without it, and a bar that cannot be had (Spark
Connect tells of no stages before it has answered) is a clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.2


@contextmanager
def progress_bar(spark: "SparkSession", title: str, *, shown: bool | None = None) -> Iterator[None]:
    """A bar under ``title`` while the block lasts, of all tasks of the stages that it starts.
    ``shown``: None = if standard error is a terminal."""
    console = Console(stderr=True)
    if not (console.is_terminal if shown is None else shown):
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    over = Event()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        watcher = Thread(target=_watch, args=(spark, progress, task, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _watch(spark: "SparkSession", progress: Progress, task: object, over: Event) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:
        return  # Spark Connect has none
    done: dict[int, tuple[int, int]] = {}
    while not over.wait(LOOK_S):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done[stage] = info.numCompletedTasks, info.numTasks
        if done:
            active = set(tracker.getActiveStageIds())
            completed = sum(n if each in active else total for each, (n, total) in done.items())
            total = sum(total for _, total in done.values())
            progress.update(task, completed=completed, total=total)  # type: ignore[arg-type]
