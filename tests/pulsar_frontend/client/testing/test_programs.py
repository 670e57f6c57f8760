"""Client programs on a broker that misbehaves: what was promised holds whatever the seed says.

Hypothesis writes the programs and draws the seeds. Time is a clock that jumps: a program in which
anybody waits for ever fails at once. ``make soak-programs`` plays thousands.
"""

import argparse
import sys
from collections.abc import Sequence

import trio
import trio.testing
from hypothesis import HealthCheck, given, seed, settings
from tests.pulsar_frontend.client.testing.programs import SETUPS, STEPS, Program, Setup

from arneb_pulsar.client import ClientOptions, connect
from arneb_pulsar.client.testing import FakeBroker

STUCK_S = 3_600.0


def play(setup: Setup, steps: list[tuple[str, int]]) -> None:
    """Play one program. Raises :class:`AssertionError` for a promise that was broken."""

    async def main() -> None:
        broker = FakeBroker(setup.faults, brokers=setup.brokers, deduplication=True, coordinators=2)
        options = ClientOptions(
            dial=broker.dial,
            seed=7,
            operation_timeout_s=3_600.0,
            backoff_cap_s=1.0,
            memory_bytes_max=setup.memory_bytes_max,
        )
        with trio.fail_after(STUCK_S):
            async with connect(broker.url, options) as client:
                program = Program(setup, broker, client)
                await program.begin()
                await program.play(steps)
                await program.settle()
                program.judge()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(max_examples=25)
@given(setup=SETUPS, steps=STEPS)
def test_nothing_is_lost_doubled_or_stuck(setup: Setup, steps: list[tuple[str, int]]) -> None:
    play(setup, steps)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play many."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    played = given(setup=SETUPS, steps=STEPS)(play)
    limits = settings(
        max_examples=options.programs,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    seed(options.seed)(limits(played))()
    print(f"{options.programs} programs of seed {options.seed}: no promise broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
