"""Spark's micro-batch engine, as far as a source meets it: an offset log and a commit log.

The rule: the order of what is written and asked is that of Spark 4.3's ``MicroBatchExecution``: the
end of a batch is written before the batch runs, the commit log after it; a run that begins with
a batch that was planned and not finished runs that one, between the same offsets; the first
batch's start is asked for again whenever no batch is finished.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.spark_connector.stream.fake_broker import FakeBroker, bodies

from arneb_core.api.entries.position import Position
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.stream.admission import NO_LIMITS, Limits
from pyspark_arneb.stream.offset import StreamOffset
from pyspark_arneb.stream.planner import StreamPlanner


class Killed(Exception):
    """The driver was killed at this step."""


@dataclass
class Checkpoint:
    """What outlives a run, and a sink that writes a batch again over what it has of it."""

    offsets: list[str] = field(default_factory=list)
    finished: int = 0
    """Batches in the commit log."""
    sink: dict[int, list[bytes]] = field(default_factory=dict)

    @property
    def rows(self) -> list[bytes]:
        return [row for batch in sorted(self.sink) for row in self.sink[batch]]


class Run:
    """One run of a query from its checkpoint."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        planner: StreamPlanner,
        broker: FakeBroker,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.checkpoint = checkpoint
        self.planner = planner
        self._broker = broker
        self._limits = limits

    def trigger(self, killed_at: str | None = None) -> bool:
        """Run one micro-batch, or find that there is none; ``killed_at`` is a step of it."""

        def step(name: str) -> None:
            if name == killed_at:
                raise Killed(name)

        checkpoint = self.checkpoint
        start = self._start()
        if len(checkpoint.offsets) == checkpoint.finished:
            end = self.planner.latest(StreamOffset.from_json(start), self._limits)
            step("planned")
            if end.to_json() == start:
                return False
            checkpoint.offsets.append(json.dumps(end.to_json()))
            step("written")
            if checkpoint.finished:
                self.planner.finish(self._offset(checkpoint.finished - 1))
            start = self._start()
        step("begun")
        batch = checkpoint.finished
        spans = self.planner.spans(StreamOffset.from_json(start), self._offset(batch))
        step("divided")
        checkpoint.sink[batch] = [row for span in spans for row in self._read(span)]
        step("done")
        checkpoint.finished += 1
        step("committed")
        return True

    def _start(self) -> dict[str, Any]:
        if self.checkpoint.finished:
            offset: dict[str, Any] = json.loads(
                self.checkpoint.offsets[self.checkpoint.finished - 1]
            )
            return offset
        return self.planner.initial().to_json()

    def _offset(self, batch: int) -> StreamOffset:
        return StreamOffset.from_json(json.loads(self.checkpoint.offsets[batch]))

    def _read(self, span: Span) -> list[bytes]:
        found = bodies(self._broker, span.topic_id, span.first, Position(span.last))
        assert len(found) == span.entries, f"{span} has only {len(found)} entries"
        return found


STEPS = ("planned", "written", "begun", "divided", "done", "committed")

Plan = Callable[[], StreamPlanner]
