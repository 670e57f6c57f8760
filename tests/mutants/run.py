"""Runs the mutant list: each known mistake is made in a copy of the code, and tests must fail.

``python -m tests.mutants.run [NAME ...]`` exits 1 and names the mutants that survive.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.amqp_table import AMQP_MUTANTS
from tests.mutants.delayed_table import DELAYED_MUTANTS
from tests.mutants.keys_table import KEYS_MUTANTS
from tests.mutants.pulsar_table import PULSAR_MUTANTS
from tests.mutants.table import MUTANTS, Mutant
from tests.mutants.topics_table import TOPIC_MUTANTS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("core", "amqp_frontend", "pulsar_frontend", "spark_connector", "broker")
TIMEOUT_S = 60


def survives(mutant: Mutant, copy: Path) -> bool:
    """Whether the mutant's tests pass although its mistake is made."""
    file = copy / mutant.file
    original = file.read_text()
    assert original.count(mutant.old) == 1, f"{mutant.name}: not found once in {mutant.file}"
    file.write_text(original.replace(mutant.old, mutant.new))
    try:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(copy / source) for source in SOURCES),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        ended = subprocess.run(
            [*command, *mutant.tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return ended.returncode == 0
    except subprocess.TimeoutExpired:
        return False  # tests that never end have noticed too
    finally:
        file.write_text(original)


def main(names: list[str]) -> int:
    chosen = [
        each
        for each in (
            *MUTANTS,
            *AMQP_MUTANTS,
            *DELAYED_MUTANTS,
            *KEYS_MUTANTS,
            *PULSAR_MUTANTS,
            *TOPIC_MUTANTS,
        )
        if not names or each.name in names
    ]
    alive: list[str] = []
    with TemporaryDirectory() as directory:
        copy = Path(directory)
        for source in SOURCES:
            shutil.copytree(ROOT / source, copy / source)
        for mutant in chosen:
            living = survives(mutant, copy)
            print(f"{'SURVIVES' if living else 'killed':8} {mutant.name}", flush=True)
            if living:
                alive.append(mutant.name)
    print(f"{len(chosen) - len(alive)} killed, {len(alive)} alive")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
