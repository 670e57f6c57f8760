"""Plays one program on two brokers, step by step, until they differ.

The rule: a step is over when neither broker has anything more to say about it. What they said must
then be equal after normalisation (:mod:`.normalise`). Unequal observations are given time; only one
that stays unequal is a difference.
"""

import itertools
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from conformance.brokers.process import Address
from conformance.differential.normalise import (
    CLOSES,
    Normalised,
    broke_down,
    came_back_in_another_order,
    came_back_otherwise,
    normalise,
    raced_for_a_window,
    shared_out_otherwise,
    went_round_a_dying_connection,
)
from conformance.differential.player import Player
from conformance.differential.program import Program, Step
from conformance.differential.vocabulary import SHORT

QUIET_ROUNDS: Final = 2
"""Observations must be equal in this many consecutive rounds. With one round, two brokers that are
both late would count as equal."""

PATIENCE_S: Final = 2.0
"""How long an observation may stay unequal. A flush, or the notice of a monitor, takes
milliseconds, and some tens of them on a busy machine."""

LAST_PATIENCE_S: Final = 20.0
"""How long it may stay unequal if nothing explains it, or if a confirm is missing: before two
brokers are reported as different, the slower one is given this time. It costs nothing while they
agree."""

CALM_S: Final = (SHORT + 130) / 1000
"""How long an observation must stay the same in a program with expiring messages, because some
timers are late."""

MAKES_READY: Final = frozenset(
    {"publish", "nack", "reject", "recover", "tx_commit", "cancel", "queue_delete", "purge", "qos"}
    | {"close_channel", "close_connection", "drop_connection", "queue_declare", "consume", "get"}
    | {"recover_async", "mistake"}
)

GIVES_BACK: Final = frozenset(
    {"close_channel", "close_connection", "drop_connection", "recover", "recover_async", "mistake"}
)

_numbers = itertools.count(1)


class Verdict(Enum):
    """How a program ended."""

    EQUAL = "equal"
    UNDECIDED = "undecided"
    """Several consumers shared the same messages in another way, so the delivery tags differ from
    here on."""
    DIFFERENT = "different"


@dataclass(slots=True)
class Line:
    """A step and what each broker said."""

    step: Step
    tag: int | None
    outputs: tuple[Normalised, Normalised]


@dataclass(slots=True)
class Report:
    """A program that was played, and its outcome."""

    program: Program
    verdict: Verdict = Verdict.EQUAL
    lines: list[Line] = field(default_factory=list)
    error: str = ""

    def __str__(self) -> str:
        text = ["program = ["]
        text += [f"    {step!r}," for step in self.program]
        text.append("]")
        for number, line in enumerate(self.lines, 1):
            tag = "" if line.tag is None else f"  [tag {line.tag}]"
            text.append(f"{number:3} {line.step!r}{tag}")
            if line.outputs[0] == line.outputs[1]:
                text += _shown("both", line.outputs[0])
            else:
                text += _shown("rabbitmq", line.outputs[0]) + _shown("arneb   ", line.outputs[1])
        return "\n".join([*text, self.error]).rstrip()


@dataclass(frozen=True, slots=True)
class Care:
    """What needs special care in one program."""

    hasty: bool
    """Messages expire."""
    quorum: bool
    """There are quorum queues."""
    stream: bool
    """There are streams."""

    def calm_s(self, step: Step) -> float:
        """How many seconds nothing may change before ``step`` is over."""
        return CALM_S if self.hasty and step.do in MAKES_READY else 0.0


def compare(program: Program, addresses: tuple[Address, Address]) -> Report:
    """Play ``program`` on both brokers; stop at the first difference."""
    report = Report(program)
    prefix = f"p{next(_numbers)}-{time.monotonic_ns() % 1_000_000}."
    players = (Player(addresses[0], prefix), Player(addresses[1], prefix))
    try:
        care = _care_for(program)
        for step in program:
            if not _play(report, step, players, care):
                break
    except (TimeoutError, AssertionError, OSError) as error:
        report.verdict, report.error = Verdict.DIFFERENT, f"at {step!r}: {error!r}"
    finally:
        for player in players:
            player.end(program)
    return report


def _care_for(program: Program) -> Care:
    values: list[Any] = []
    for step in program:
        for name in ("arguments", "properties"):
            values += (step.args.get(name) or {}).values()
    return Care(SHORT in values or str(SHORT) in values, "quorum" in values, "stream" in values)


def _play(report: Report, step: Step, players: tuple[Player, Player], care: Care) -> bool:
    tag = None
    if "which" in step.args:
        tag = _tag(step.args["which"], players[0].unacked.get(step.on, []))
        if tag is None:
            return True
    if _begins_with_got(step, players[0]):
        return True
    for player in players:
        player.play(step, tag)
    outputs = _settled(players, care, care.calm_s(step), PATIENCE_S)
    report.lines.append(Line(step, tag, outputs))
    if outputs[0] != outputs[1] and not _is_explained(report, outputs, care):
        outputs = _settled(players, care, care.calm_s(step), LAST_PATIENCE_S)
        report.lines[-1] = Line(step, tag, outputs)
    if outputs[0] == outputs[1]:
        for player in players:
            player.next_step()
        return True
    explained = _is_explained(report, outputs, care)
    report.verdict = Verdict.UNDECIDED if explained else Verdict.DIFFERENT
    return False


def _is_explained(report: Report, outputs: tuple[Normalised, Normalised], care: Care) -> bool:
    """Whether the last observations differ only in ways in which correct brokers may differ."""
    explained = shared_out_otherwise(outputs)
    if _gives_back(report.lines[-1]):
        explained = explained or came_back_in_another_order(outputs)
    if care.quorum and any(_gives_back(line) for line in report.lines):
        explained = explained or came_back_otherwise(outputs)
    if care.quorum and _ends_connection(report.lines[-1]):
        explained = explained or went_round_a_dying_connection(outputs)
    if any(line.step.args.get("global_") for line in report.lines):
        explained = explained or raced_for_a_window(outputs)
    return explained or broke_down(outputs)


def _begins_with_got(step: Step, player: Player) -> bool:
    """Whether the step begins a global prefetch while a ``basic.get`` delivery is unacknowledged.
    RabbitMQ would count that delivery, for ever (``DIFFERENCES.md``), so such a step is skipped."""
    begins = step.do == "qos" and step.args.get("global_") and step.args.get("prefetch_count")
    return bool(begins) and player.holds_got(step.on)


def _ends_connection(line: Line) -> bool:
    ends = line.step.do in ("close_connection", "drop_connection", "mistake")
    return ends or any(place.startswith("connection") for place in line.outputs[0])


def _gives_back(line: Line) -> bool:
    """Whether messages may have returned to their queues, to be delivered again."""
    ends = line.step.do in GIVES_BACK
    refused = any(
        name in CLOSES
        for place, kinds in line.outputs[0].items()
        if place != "queues"
        for name, *_ in kinds.get("said", ())
    )
    return bool(line.step.args.get("requeue")) or ends or refused


def _settled(
    players: tuple[Player, Player], care: Care, calm_s: float, patience_s: float
) -> tuple[Normalised, Normalised]:
    """What both brokers have said, once they agree and have stayed the same for ``calm_s``, or when
    time is up. Raises TimeoutError if a confirm is missing."""
    end = time.monotonic() + patience_s + calm_s
    last_end = end - patience_s + LAST_PATIENCE_S
    equal, same_since, before = 0, time.monotonic(), None
    while True:
        for player in players:
            player.settle()
        first, second = (
            normalise(
                player.observation(),
                player.prefix,
                player.connection_of,
                player.generated,
                quorum=care.quorum,
                stream=care.stream,
            )
            for player in players
        )
        if first != before:
            before, same_since, end = first, time.monotonic(), max(end, time.monotonic() + calm_s)
        equal = equal + 1 if first == second and not any(p.waiting for p in players) else 0
        waiting = any(player.waiting for player in players)
        late = time.monotonic() > (last_end if waiting else end)
        if late and waiting:
            raise TimeoutError("a confirm is missing")
        calm = time.monotonic() - same_since >= (calm_s if _any_ready(first) else 0)
        if (equal >= QUIET_ROUNDS and calm) or late:
            return first, second
        if not (equal and calm):
            time.sleep(0.002)


def _any_ready(output: Normalised) -> bool:
    """Whether some queue holds messages, which may expire."""
    counts = output["queues"].values()
    return any(isinstance(count, tuple) and count[0] for count in counts)


def _tag(which: int, unacked: list[int]) -> int | None:
    """The delivery tag that a step means. A negative ``which`` means a tag that never existed; None
    means that there is nothing to acknowledge."""
    if which < 0:
        return 1000 - which
    return unacked[which % len(unacked)] if unacked else None


def _shown(who: str, output: Normalised) -> list[str]:
    return [f"      {who} {place}: {what!r}" for place, what in output.items()] or [
        f"      {who} -"
    ]
