"""Every mutant still applies to the code as it is."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

_spec = importlib.util.spec_from_file_location("mutant_table", HERE / "table.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
import sys  # noqa: E402

sys.modules["mutant_table"] = table
_spec.loader.exec_module(table)


@pytest.mark.parametrize("mutant", table.MUTANTS, ids=lambda each: each.name)
def test_the_mistake_can_be_made(mutant) -> None:
    code = (ROOT / mutant.file).read_text()
    assert code.count(mutant.old) == 1
    assert all((ROOT / test).exists() for test in mutant.tests)
    compile(code.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_names_are_unique() -> None:
    names = [each.name for each in table.MUTANTS]
    assert len(names) == len(set(names))
