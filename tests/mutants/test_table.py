"""Every mutant still applies to the code as it is."""

from pathlib import Path

import pytest
from tests.mutants.amqp_table import AMQP_MUTANTS
from tests.mutants.delayed_table import DELAYED_MUTANTS
from tests.mutants.keys_table import KEYS_MUTANTS
from tests.mutants.pulsar_table import PULSAR_MUTANTS
from tests.mutants.table import MUTANTS, Mutant
from tests.mutants.topics_table import TOPIC_MUTANTS

ALL = (*MUTANTS, *AMQP_MUTANTS, *DELAYED_MUTANTS, *KEYS_MUTANTS, *PULSAR_MUTANTS, *TOPIC_MUTANTS)

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", ALL, ids=lambda each: each.name)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    code = (ROOT / mutant.file).read_text()
    assert code.count(mutant.old) == 1
    assert all((ROOT / test).exists() for test in mutant.tests)
    compile(code.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_names_are_unique() -> None:
    names = [each.name for each in ALL]
    assert len(names) == len(set(names))
