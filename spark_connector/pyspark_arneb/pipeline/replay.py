"""Replay: messages of the log, or of its sealed tier, once more into a topic, queue or exchange.

The rule: what is replayed is fixed when a replay begins, cut into pieces in the order of the log,
and written down (:class:`Plan`). Each piece is one write under a name of its own, of which the
broker remembers what it has committed; so a replay that was broken off anywhere goes on where it
was, and no message comes twice or never.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.session import JobFailed, in_one_line

MESSAGES_A_PIECE: Final = 50_000
"""One write, which one task carries out so that the order stays: a few seconds of it."""

PIECES_MAX: Final = 9_000
"""The broker remembers of 10,000 writes what it has committed, for three months."""

PACE_S: Final = 5.0
"""A replay with a rate writes about so long at a time."""

WRITTEN: Final = ("value", "key", "event_time", "ordering_key", "properties")
"""What a message takes along."""

STATE_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one ledger."""

    topic: str
    ledger: int
    first: int
    last: int
    """Entries, both included."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go: a topic, a queue or an exchange, by the options of the sink."""

    options: Mapping[str, str]

    def __post_init__(self) -> None:
        ways = [name for name in ("topic", "queue", "exchange") if name in self.options]
        if len(ways) != 1:
            raise JobFailed("expected --to-topic, --to-queue or --to-exchange, one of them")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are replayed."""

    topics: Sequence[str]
    starting_time: str | None = None
    ending_time: str | None = None
    where: str | None = None
    """A condition in SQL on the columns of the source; ``body`` is the value as text."""
    sealed: str | None = None
    """The sealed tier that has what the log has no more."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise JobFailed("--topic: expected at least one")

    @property
    def options(self) -> dict[str, str | None]:
        """Those of the source that fix what is read."""
        return {
            "topics": ",".join(self.topics),
            "startingTime": self.starting_time,
            "endingTime": self.ending_time,
            "sealed": self.sealed,
        }


@dataclass(slots=True)
class Plan:
    """A replay as it is written down.

    Invariant: the first ``done`` pieces are in their target.
    """

    name: str
    choice: dict[str, Any]
    target: dict[str, str]
    pieces: list[Piece]
    messages: int
    """Of the log in those pieces, before the condition."""
    done: int = 0
    written: int = 0

    def __repr__(self) -> str:
        return f"<Plan {self.name}, {self.done} of {len(self.pieces)} pieces>"

    @classmethod
    def load(cls, file: Path) -> "Plan | None":
        """What stands in ``file``; None if there is none. Raises :class:`JobFailed`."""
        try:
            document = json.loads(file.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise JobFailed(f"--state: cannot read {file}: {error}") from None
        try:
            if document.pop("format") != STATE_FORMAT:
                raise ValueError("of another version")
            return cls(**{**document, "pieces": [Piece(**each) for each in document["pieces"]]})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JobFailed(f"--state: {file} is no replay's: {error}") from None

    def save(self, file: Path) -> None:
        """Write it down, whole or not at all."""
        draft = file.with_name(f"{file.name}.new")
        try:
            with draft.open("w") as out:
                json.dump({"format": STATE_FORMAT, **asdict(self)}, out)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
        except OSError as error:
            raise JobFailed(f"--state: cannot write {file}: {error.strerror}") from None


@dataclass(slots=True)
class Pace:
    """Keeps a replay from being faster than so many messages a second, over all of its time."""

    per_s: float | None = None
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = field(default=0.0, init=False)

    @property
    def messages_a_piece(self) -> int:
        """How many fit the rate at a time."""
        if self.per_s is None:
            return MESSAGES_A_PIECE
        return max(1, min(MESSAGES_A_PIECE, round(self.per_s * PACE_S)))

    def wait(self) -> None:
        """Until the next may go."""
        left = self._free_at - self.now()
        if left > 0:
            self.sleep(left)

    def took(self, messages: int) -> None:
        """So many go now."""
        if self.per_s is not None:
            self._free_at = max(self._free_at, self.now()) + messages / self.per_s


def replay(
    spark: SparkSession,
    location: Location,
    choice: Choice,
    target: Target,
    state: Path,
    *,
    to: Location | None = None,
    pace: Pace | None = None,
    told: Callable[[Plan], None] = lambda plan: None,
) -> Plan:
    """Replay what was chosen into ``target``, of the broker of ``to`` (else of ``location``), each
    message once; ``state`` is the file in which the replay is written down, and with which it goes
    on if it was broken off. ``told`` hears of each piece that is done."""
    service = (to or location).service_options
    pace = pace or Pace()
    plan = Plan.load(state)
    wanted = asdict(choice)
    wanted["topics"] = list(choice.topics)
    if plan is None:
        plan = make_plan(spark, location, choice, target, pace.messages_a_piece)
        plan.save(state)
    elif plan.choice != wanted or plan.target != dict(target.options):
        raise JobFailed(f"--state: {state} is of another replay; name another file for this one")
    told(plan)
    for number in range(plan.done, len(plan.pieces)):
        pace.wait()
        messages = read_piece(spark, location, choice, plan.pieces[number])
        written = messages.count()
        if written:
            name = f"{plan.name}.{number}"
            # One task: rows of a piece keep their order, and are cut alike when they come again.
            writer = messages.select(*WRITTEN).coalesce(1).write.format("arneb").mode("append")
            writer.options(**service, **target.options, idempotenceId=name).save()
        pace.took(written)
        plan.done, plan.written = number + 1, plan.written + written
        plan.save(state)
        told(plan)
    return plan


def make_plan(
    spark: SparkSession, location: Location, choice: Choice, target: Target, messages_a_piece: int
) -> Plan:
    """What there is to replay, as of now."""
    places = location.read(spark, columns="topic,ledger_id,entry_id", **choice.options)
    ledgers = (
        places.groupBy("topic", "ledger_id")
        .agg(
            functions.min("entry_id").alias("first"),
            functions.max("entry_id").alias("last"),
            functions.count("*").alias("messages"),
        )
        .orderBy("topic", "ledger_id")
        .collect()
    )
    pieces = [piece for row in ledgers for piece in _cut(row.asDict(), messages_a_piece)]
    if len(pieces) > PIECES_MAX:
        raise JobFailed(
            f"expected at most {PIECES_MAX:,} pieces, got {len(pieces):,}: raise --rate, or replay "
            "a shorter time at once"
        )
    chosen = asdict(choice)
    chosen["topics"] = list(choice.topics)
    messages = sum(row["messages"] for row in ledgers)
    name = f"replay-{time.time_ns():x}"
    return Plan(name, chosen, dict(target.options), pieces, messages)


def _cut(row: Mapping[str, Any], messages_a_piece: int) -> Iterator[Piece]:
    """A ledger's stretch in pieces of about so many messages."""
    first, last = row["first"], row["last"]
    entries = last - first + 1
    count = max(1, -(-row["messages"] // messages_a_piece))
    step = max(1, -(-entries // count))
    for start in range(first, last + 1, step):
        yield Piece(row["topic"], row["ledger_id"], start, min(start + step - 1, last))


def read_piece(spark: SparkSession, location: Location, choice: Choice, piece: Piece) -> DataFrame:
    """The messages of one piece that are chosen, in order."""
    start = {piece.topic: f"{piece.ledger}:{piece.first}"}
    end = {piece.topic: f"{piece.ledger}:{piece.last + 1}"}
    # Times would win over the offsets, which have them: a log is in the order of its times.
    messages = location.read(
        spark,
        topics=piece.topic,
        sealed=choice.sealed,
        startingOffsets=json.dumps(start),
        endingOffsets=json.dumps(end),
        minPartitions="1",
        includeProperties="true",
    )
    if choice.where is not None:
        body = functions.col("value").cast("string")
        try:
            messages = messages.withColumn("body", body).where(choice.where)
        except PySparkException as error:
            raise JobFailed(f"--where: {in_one_line(error)}") from error
    return messages
