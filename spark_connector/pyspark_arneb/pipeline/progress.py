"""Progress: a bar for a long job, on a terminal only.

The rule: it only observes. A job runs the same way without it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

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

CHECK_INTERVAL_S: Final = 0.2

Count = Callable[[int, int], None]
"""Called with how much is done and how much there is; both may grow."""


def on_terminal() -> bool:
    """Return whether a terminal can show a bar."""
    return Console(stderr=True).is_terminal


@contextmanager
def counted(title: str, unit: str, *, shown: bool | None = None) -> Iterator[Count]:
    """Show a bar under ``title`` during the block, fed by the yielded function, in ``unit``.
    ``shown`` None: only if standard error is a terminal."""
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
    """Show a bar under ``title`` during the block, for all tasks of the stages that it starts.
    ``shown`` None: only if standard error is a terminal."""
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
        stages = Stages(count)
        try:
            tracker = spark.sparkContext.statusTracker()
        except Exception:  # Spark Connect has none, but reports progress itself
            heard: Any = stages.hear
            spark.registerProgressHandler(heard)
            try:
                yield
            finally:
                spark.removeProgressHandler(heard)
            return
        watcher = Thread(target=_watch, args=(tracker, stages, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


class Stages:
    """Tasks of all stages so far, so that a new stage does not move the bar back."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._tasks: dict[int, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"<Stages {len(self._tasks)}>"

    def hear(self, stages: Any, *_: Any, **__: Any) -> None:
        """Take a Spark Connect server's progress of a query, by the names of its protocol."""
        for each in stages or ():
            self._tasks[each.stage_id] = each.num_completed_tasks, each.num_tasks
        self._tell()

    def look(self, tracker: Any) -> None:
        """Update from this process's Spark."""
        active = tracker.getActiveStageIds()
        for stage in active:
            info = tracker.getStageInfo(stage)
            if info is not None:
                self._tasks[stage] = info.numCompletedTasks, info.numTasks
        for stage in self._tasks.keys() - set(active):
            _, total = self._tasks[stage]
            self._tasks[stage] = total, total
        self._tell()

    def _tell(self) -> None:
        if self._tasks:
            done, total = map(sum, zip(*self._tasks.values(), strict=True))
            self._count(done, total)


@contextmanager
def _bar(
    columns: tuple[ProgressColumn, ...], title: str, shown: bool | None
) -> Iterator[Count | None]:
    """None where no bar is shown."""
    if not (on_terminal() if shown is None else shown):
        yield None
        return
    # Redirected output goes to its file, whatever the terminal shows.
    redirected = sys.stdout.isatty()
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=redirected
    ) as progress:
        task = progress.add_task(title, total=None)

        def count(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield count


def _watch(tracker: Any, stages: Stages, over: Event) -> None:
    while not over.wait(CHECK_INTERVAL_S):
        stages.look(tracker)
