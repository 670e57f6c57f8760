"""Replay: sends messages of the log, and of its sealed tier, again to a topic, queue or exchange.

The rule: the messages are fixed when a replay begins, and are sent piece by piece in the log's
order (:mod:`.replay_plan`). A piece is one commit of the broker under the replay's name and an
increasing number, and the broker stores the last number in the same commit; so an interrupted
replay continues where it was, and no message is sent twice or left out.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession, functions

from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.replay_plan import Plan
from pyspark_arneb.pipeline.replay_source import Choice, ReplaySource
from pyspark_arneb.pipeline.session import JobFailed, in_one_line

__all__ = ["Choice", "Pace", "Plan", "Target", "replay"]

MESSAGES_A_PIECE: Final = 50_000
"""One write, done by one task to keep the order: a second or two of work. A piece too large for one
commit of the broker is halved."""

PACE_S: Final = 5.0
"""Seconds' worth of messages that a replay with a rate writes at a time."""

WRITTEN: Final = ("value", "key", "event_time", "ordering_key", "properties")
"""The columns that are copied."""

TOO_LARGE: Final = "data.batch_bytes_max"
"""The setting that a broker names when it refuses a commit as too large."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go: a topic, a queue or an exchange, by the options of the sink."""

    options: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        ways = [name for name in ("topic", "queue", "exchange") if name in self.options]
        if len(ways) != 1:
            raise JobFailed("expected exactly one of --to-topic, --to-queue and --to-exchange")


class Pace:
    """Limits a replay to a number of messages a second, over all of its time."""

    def __init__(
        self,
        per_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.per_s = per_s
        self._now = now
        self._sleep = sleep
        self._free_at = 0.0

    def __repr__(self) -> str:
        return f"<Pace of {self.per_s or 'any number of'} messages a second>"

    @property
    def messages_a_piece(self) -> int:
        """Return how many messages to write at a time at this rate."""
        if self.per_s is None:
            return MESSAGES_A_PIECE
        return max(1, min(MESSAGES_A_PIECE, round(self.per_s * PACE_S)))

    def wait(self) -> None:
        """Wait until the next piece may be written."""
        left = self._free_at - self._now()
        if left > 0:
            self._sleep(left)

    def took(self, messages: int) -> None:
        """Count messages that were written now."""
        if self.per_s is not None:
            self._free_at = max(self._free_at, self._now()) + messages / self.per_s


def replay(
    spark: SparkSession,
    location: Location | None,
    choice: Choice,
    target: Target,
    state: Path,
    *,
    to: Location | None = None,
    pace: Pace | None = None,
    progress: Callable[[Plan], None] = lambda plan: None,
) -> Plan:
    """Replay what was chosen into ``target``, at the broker of ``to`` (else of ``location``), each
    message once. ``state`` is the file that records the replay, with which it continues if it was
    interrupted. ``progress`` is called with the plan at the start and after each piece.

    Raises :class:`.JobFailed`, and what :class:`.ReplaySource` raises.
    """
    broker = to or location
    if broker is None:
        raise JobFailed("--to-url: is needed, because rows are written through a broker")
    sink = {**broker.service_options, **target.options}
    pace = pace or Pace()
    source = ReplaySource(spark, location, choice)
    plan = Plan.load(state)
    if plan is None:
        plan = _begun(source, choice, target, pace).create(state)
    if plan.choice != _as_json(choice) or plan.target != dict(target.options):
        raise JobFailed(
            f"--state: {state} belongs to another replay; name another file for this one"
        )
    progress(plan)
    while plan.piece is not None:
        pace.wait()
        try:
            written = _write(source.read(plan.piece), sink, plan)
        except PySparkException as error:
            if TOO_LARGE not in in_one_line(error):
                raise
            plan.halve()
        else:
            pace.took(written)
            plan.move_on(written, pace.messages_a_piece)
        plan.save(state)
        progress(plan)
    return plan


def _begun(source: ReplaySource, choice: Choice, target: Target, pace: Pace) -> Plan:
    plan = Plan.begin(
        f"replay-{time.time_ns():x}",
        _as_json(choice),
        dict(target.options),
        source.stretches(),
        pace.messages_a_piece,
    )
    if plan.piece is not None:
        source.read(plan.piece)  # a wrong condition is reported before there is a file
    return plan


def _as_json(choice: Choice) -> dict[str, Any]:
    return {**asdict(choice), "topics": list(choice.topics)}


def _write(messages: DataFrame, sink: Mapping[str, str], plan: Plan) -> int:
    """Send a piece to the broker, which may have it already; return how many messages it has."""
    seen = Observation()
    counted = messages.observe(seen, functions.count(functions.lit(1)).alias("messages"))
    writer = counted.select(*WRITTEN).write.format("arneb").mode("append").options(**sink)
    writer.options(idempotenceId=plan.name, idempotenceVersion=str(plan.number)).save()
    written: int = seen.get["messages"]
    return written
