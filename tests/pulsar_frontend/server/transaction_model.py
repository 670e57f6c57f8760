"""What there is after whatever clients did in transactions: a small model.

The rule: it knows what was answered, and nothing of how it is stored.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from arneb_pulsar.transactions.outcomes import KEPT_MS

TOPICS: Final = ("in", "out")
START_MS: Final = 1_000_000_000_000
OK: Final = "ok"
ENDED: Final = "InvalidTxnStatus"
FORGOTTEN: Final = "TransactionNotFound"


@dataclass(eq=False)
class Known:
    """A transaction, as far as the model knows."""

    id: Any
    until_ms: int
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    acked: set[bytes] = field(default_factory=set)
    state: str = "open"
    ended_at_ms: int = 0
    """By :attr:`Model.passed_ms`."""

    @property
    def is_done_in(self) -> bool:
        """Something was."""
        return bool(self.sent or self.acked)


@dataclass
class Model:
    """What there is."""

    logs: dict[str, list[bytes]] = field(default_factory=lambda: {each: [] for each in TOPICS})
    """What was committed, in its order."""
    acked: set[bytes] = field(default_factory=set)
    """In ``in``."""
    transactions: list[Known] = field(default_factory=list)
    ids: dict[bytes, Any] = field(default_factory=dict)
    """Message ids of what consumers got."""
    messages: int = 0
    now_ms: int = START_MS
    """The time of day, which is set now and then."""
    passed_ms: int = 0
    """Time that has really passed."""

    def another(self) -> bytes:
        """A message that there was not yet."""
        self.messages += 1
        return b"|%d" % self.messages

    def withheld(self) -> set[bytes]:
        """What open transactions have acknowledged."""
        return set().union(*(each.acked for each in self.transactions if each.state == "open"))

    def left(self) -> Counter[bytes]:
        """What a consumer gets."""
        gone = self.acked | self.withheld()
        return Counter(each for each in self.logs["in"] if each not in gone)

    def end(self, known: Known, *, commit: bool) -> None:
        """It counts, or never was."""
        known.state = "committed" if commit else "aborted"
        known.ended_at_ms = self.passed_ms
        if commit:
            self.acked |= known.acked
            for topic, payload in known.sent:
                self.logs[topic].append(payload)

    def expire(self) -> None:
        """Those whose time is up are aborted."""
        for each in self.transactions:
            if each.state == "open" and each.until_ms <= self.now_ms:
                self.end(each, commit=False)

    def answers(self, known: Known, *, commit: bool) -> set[str]:
        """What may be answered to a client that ends it."""
        if known.state == "open":
            return {OK}
        answer = OK if commit == (known.state == "committed") else ENDED
        return {answer} | self.forgetting(known)

    def forgetting(self, known: Known) -> set[str]:
        """The answer besides, once its end may be forgotten."""
        is_long_ago = self.passed_ms - known.ended_at_ms >= KEPT_MS
        return {FORGOTTEN} if known.state != "open" and is_long_ago else set()

    def pick(self, index: int) -> Known | None:
        """A transaction, ended or not, if there is one; rather a late one."""
        return self.transactions[-1 - index % len(self.transactions)] if self.transactions else None

    def pick_open(self, index: int) -> Known | None:
        """One that is open."""
        found = [each for each in self.transactions if each.state == "open"]
        return found[index % len(found)] if found else None

    def pick_message(self, index: int) -> bytes | None:
        """A message that some consumer got; three times of four one that nobody acknowledged."""
        taken = self.acked | self.withheld() if index % 4 else set()
        found = [each for each in self.ids if each not in taken]
        return found[index % len(found)] if found else None
