"""Draws programs from a seed and plays them until one differs.

The rule: the same seed draws the same programs. Hypothesis only draws. Shrinking is done by
:mod:`.shrink`, which leaves out steps, so the shorter programs are still played within a second.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from conformance.brokers.process import Address
from conformance.differential.compare import Report, Verdict, compare
from conformance.differential.program import Kind, Program, programs
from conformance.differential.shrink import shrunk
from hypothesis import HealthCheck, Phase, given, seed, settings

Verdicts = Counter[Verdict]

MIXED: Final = (Kind.USUAL,) * 22 + (Kind.QUORUM, Kind.DYING) * 3 + (Kind.HASTY, Kind.STREAM)
"""Few are slow: replicated queues take long to create, and expiry has to be waited for."""


class Different(Exception):
    """The two brokers differ; the message is the shortest program found and both transcripts."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))


def stop(report: Report) -> None:
    """End the run at the first difference."""
    raise Different(report)


def run(
    count: int,
    steps: int,
    from_seed: int,
    addresses: tuple[Address, Address],
    *,
    tx: bool = True,
    among: Sequence[Kind] = MIXED,
    after_each: Callable[[Verdicts], None] = lambda verdicts: None,
    when_different: Callable[[Report], None] = stop,
) -> Verdicts:
    """Play ``count`` programs. One that differs is shrunk and passed to ``when_different``, which
    may raise :class:`Different` to end the run."""
    verdicts = Verdicts()
    ended: list[Different] = []

    @seed(from_seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(steps, tx=tx, among=among))
    def play(program: Program) -> None:
        # Hypothesis runs a failing program once more, to see it fail again.
        if not ended:
            report = compare(program, addresses)
            verdicts[report.verdict] += 1
            after_each(verdicts)
            if report.verdict is Verdict.DIFFERENT:
                try:
                    when_different(shrunk(report, lambda shorter: compare(shorter, addresses)))
                except Different as different:
                    ended.append(different)
        if ended:
            raise ended[0]

    play()
    return verdicts
