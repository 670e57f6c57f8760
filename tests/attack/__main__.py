"""``python -m tests.attack [SECONDS] [--seed N] [--listener LISTENER] [--theme THEME]``

Attacks every listener (or one) for that long, prints what was measured, and exits with 1 if a bound
did not hold. The same seed sends the same bytes.
"""

import random
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.attack.running import ATTACKED, CROWD, CROWDED, AttackedBroker, attack, settle


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "seconds", nargs="?", type=float, default=300.0, help="seconds for each listener"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--listener", choices=ATTACKED)
    parser.add_argument("--theme", default="", help="only this one; requires --listener")
    wanted = parser.parse_args()
    print(f"seed {wanted.seed}")
    broken = []
    for listener in [wanted.listener] if wanted.listener else ATTACKED:
        with TemporaryDirectory() as directory, AttackedBroker(Path(directory) / "data") as broker:
            broker.fill()
            settle(broker)
            themes = [wanted.theme] if wanted.theme or listener not in CROWDED else ["", CROWD]
            for theme in themes:
                found = attack(broker, listener, wanted.seconds, wanted.seed, theme)
                print(found.report(), flush=True)
                broken += [f"{listener} {theme}: {each}" for each in found.broken]
    for each in broken:
        print(f"BROKEN {each}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
