"""Some random programs in every run of the scenarios; thousands are played by the command."""

import secrets

import pytest
from conformance.differential.conftest import Both
from conformance.differential.run import run

PROGRAMS = 25
STEPS = 50


def test_random_programs_are_answered_alike(both: Both, pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("seed") or secrets.randbits(32)
    print(f"--seed {seed}")
    run(PROGRAMS, STEPS, seed, both, tx=False)
