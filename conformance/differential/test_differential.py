"""Some random programs in every run of the scenarios; the command plays thousands."""

import pytest
from conformance.differential.conftest import Both
from conformance.differential.run import run

PROGRAMS = 100
STEPS = 50
SEED = 7
"""Always the same programs, so that a failure is caused by a change of ours; ``--seed`` draws
others."""


def test_random_programs_are_answered_alike(both: Both, pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("seed") or SEED
    print(f"--seed {seed}")
    run(PROGRAMS, STEPS, seed, both)
