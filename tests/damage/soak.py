"""Applies one damage after the other, for as long as requested; ``make soak-damage``."""

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.damage.commands import copy_of, run
from tests.damage.damages import Damage, damages
from tests.damage.saved import Log, assert_saved, read_everything
from tests.damage.stored import make_everything

COMMANDS: Final = ("check", "topics", "serve")


def suffer(directory: Path, damage: Damage, original: Log) -> str:
    """Run the commands on damaged copies; the result is one line with all outcomes. Raises if a
    command ends in a way that it must not."""
    outcomes = []
    for command in COMMANDS:
        with copy_of(directory) as copy:
            damage.apply(copy / "data.mdb")
            status, _, err = run(command, copy)
            outcomes.append(f"{command} {status}")
            reason = err.strip().splitlines()[-1:] if status == 2 else []
            outcomes += [each[:160] for each in reason]
    with copy_of(directory) as copy:
        damage.apply(copy / "data.mdb")
        before = {each.name: each.read_bytes() for each in copy.iterdir()}
        outcomes.append(assert_saved(copy, copy.with_name("out"), original))
        assert {each.name: each.read_bytes() for each in copy.iterdir()} == before
    return f"{damage}: " + ", ".join(outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name, "data")
        make_everything(directory)
        original = read_everything(directory)
        for number, damage in enumerate(damages(directory / "data.mdb", options.seed), 1):
            print(number, suffer(directory, damage, original), flush=True)
            if time.monotonic() > until:
                break


if __name__ == "__main__":
    main()
