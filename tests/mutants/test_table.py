"""Every mutant still applies to the code as it is."""

from pathlib import Path

import pytest
from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    code = (ROOT / mutant.file).read_text()
    assert code.count(mutant.old) == 1
    assert all((ROOT / test).exists() for test in mutant.tests)
    compile(code.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_names_are_unique() -> None:
    names = [each.name for each in MUTANTS]
    assert len(names) == len(set(names))
