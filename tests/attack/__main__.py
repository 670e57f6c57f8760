"""``python -m tests.attack [SECONDS] [--seed N] [--door DOOR] [--theme THEME]``

Attacks every door (or one) for so long, prints what was measured, and exits 1 if a bound did not
hold. The same seed sends the same bytes.
"""

import random
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.attack.running import DOORS, AttackedBroker, attack, settle


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=300.0, help="for each door")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--door", choices=DOORS)
    parser.add_argument("--theme", default="", help="one only; with --door")
    wanted = parser.parse_args()
    print(f"seed {wanted.seed}")
    broken = []
    for door in [wanted.door] if wanted.door else DOORS:
        with TemporaryDirectory() as directory, AttackedBroker(Path(directory) / "data") as broker:
            broker.fill()
            settle(broker)
            found = attack(broker, door, wanted.seconds, wanted.seed, wanted.theme)
            print(found.report(), flush=True)
            broken += [f"{door}: {each}" for each in found.broken]
    for each in broken:
        print(f"BROKEN {each}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
