"""A simple broker that writes a history of what it does: the model that the checks are held to.

It keeps one queue in a list and obeys every rule; what is wrong in a history, a test puts there.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pyspark_arneb.pipeline.checks.broker_history import Batch, read_batch

TOPIC, SUBSCRIPTION = "persistent://public/default/q", "amqp"
WHERE = f"{TOPIC}/{SUBSCRIPTION}"

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["publish", "deliver", "ack", "requeue", "reject", "expire", "purge", "flush", "crash"]
        ),
        st.integers(0, 2),
    ),
    max_size=60,
)


@dataclass
class ModelBroker:
    """One queue, whose entries are numbered from 0 in ledger 1."""

    run: int = 1_000
    began: int = 0
    batch: int = 0
    now_ms: int = 10_000
    published: int = 0
    ready: list[int] = field(default_factory=list)
    out: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    lines: list[dict[str, Any]] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)

    def do(self, operation: str, number: int) -> None:
        """One operation; those that cannot be done now do nothing."""
        self.now_ms += 1
        consumer = f"c{number}"
        match operation:
            case "publish":
                self.ready += range(self.published, self.published + number + 1)
                self.published += number + 1
            case "deliver" if self.ready:
                run = [self.ready.pop(0) for _ in range(min(number + 1, len(self.ready)))]
                again = [each for each in run if each in self.seen]
                more = {"redelivered": again} if again else {}
                self.tell("delivered", run, consumer=consumer, age_ms=[5] * len(run), **more)
                self.out |= dict.fromkeys(run, consumer)
                self.seen |= set(run)
            case "ack" | "reject" if self.out:
                entry = sorted(self.out)[number % len(self.out)]
                if operation == "ack":
                    self.tell("acknowledged", [entry], consumer=self.out[entry])
                else:
                    self.tell("departed", [entry], reason="rejected", dead_lettered=True)
                del self.out[entry]
                self.done.add(entry)
            case "requeue" if self.out:
                entry = sorted(self.out)[number % len(self.out)]
                self.tell("returned", [entry], consumer=self.out.pop(entry), counted=True)
                self.ready = sorted([*self.ready, entry])
            case "expire" if self.ready:
                entry = self.ready.pop(0)
                self.tell("departed", [entry], reason="expired", dead_lettered=False)
                self.done.add(entry)
            case "purge" if self.published:
                self.tell("purged", [self.published - 1])
                self.done |= set(self.ready)
                self.ready.clear()
            case "flush":
                self.flush()
            case "crash":
                self.crash()

    def tell(self, event: str, entries: list[int], **more: Any) -> None:
        where = {"ledger": 1, "entries": entries}
        self.lines.append({"event": event, "at": self.now_ms, **more, **where})

    def flush(self) -> None:
        """Everything that was told is on disk."""
        if not self.lines:
            return
        mark_delete = next(n for n in range(self.published + 1) if n not in self.done) - 1
        head = {
            "event": "batch",
            "at": self.now_ms,
            "topic": TOPIC,
            "subscription": SUBSCRIPTION,
            "run": str(self.run),
            "began": f"1:{self.began}",
            "batch": self.batch,
            "mark_delete": f"1:{mark_delete}" if mark_delete >= 0 else "1:-1",
        }
        self.batches.append("\n".join(map(json.dumps, [head, *self.lines])) + "\n")
        self.lines.clear()
        self.batch += 1

    def crash(self) -> None:
        """What is in memory is gone, and begins again from what is on disk."""
        self.flush()
        self.ready = [n for n in range(self.published) if n not in self.done]
        self.out.clear()
        self.seen = set(range(self.published))
        self.run += 1_000
        self.began, self.batch = self.published, 0

    @property
    def history(self) -> list[Batch]:
        return [read_batch(text) for text in self.batches]


def played(operations: list[tuple[str, int]]) -> ModelBroker:
    """The broker when it has done all of them."""
    broker = ModelBroker()
    for operation, number in operations:
        broker.do(operation, number)
    broker.flush()
    return broker
