"""Every mutant still applies to the code as it is, and every scenario exists."""

import re
from pathlib import Path

import pytest
from tests.mutants.black_box import SCENARIOS
from tests.mutants.every import EVERY
from tests.mutants.table import Mutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", EVERY, ids=lambda each: each.name)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    code = (ROOT / mutant.file).read_text()
    assert code.count(mutant.old) == 1
    assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests)
    compile(code.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_names_are_unique() -> None:
    names = [each.name for each in EVERY]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_scenarios_can_be_run(name: str) -> None:
    assert name in {each.name for each in EVERY}
    for scenario in SCENARIOS[name]:
        file, _, function = scenario.partition("::")
        wanted = rf"^def {function}\(" if function else "^def test_"
        assert re.search(wanted, (ROOT / file).read_text(), re.MULTILINE)
