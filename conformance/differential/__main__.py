"""``python -m conformance.differential --programs 2000 --steps 50 --seed N``."""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from conformance.brokers.arneb import Arneb
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.differential.compare import Report, Verdict
from conformance.differential.program import Kind
from conformance.differential.run import MIXED, Different, Verdicts, run, stop

EVERY: Final = 100
"""How many programs between two lines of progress."""


def main() -> int:
    """Start both brokers and play programs; the exit status is 1 if they differ."""
    parser = argparse.ArgumentParser(prog="conformance.differential", description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--no-tx", action="store_true", help="leave out transactions")
    parser.add_argument(
        "--go-on", action="store_true", help="show each program that differs, and continue"
    )
    parser.add_argument(
        "--kind", choices=[kind.value for kind in Kind], help="play only programs of this kind"
    )
    wanted = parser.parse_args()
    print(f"{wanted.programs} programs of {wanted.steps} steps, seed {wanted.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        rabbitmq, arneb = RabbitMQ(Path(directory, "r")), Arneb(Path(directory, "a"))
        try:
            addresses = rabbitmq.start().address, arneb.start().address
            verdicts = run(
                wanted.programs,
                wanted.steps,
                wanted.seed,
                addresses,
                tx=not wanted.no_tx,
                among=[Kind(wanted.kind)] if wanted.kind else MIXED,
                after_each=_progress(),
                when_different=_show if wanted.go_on else stop,
            )
        except Different as different:
            print(different)
            return 1
        finally:
            arneb.kill()
            rabbitmq.kill()
    print("; ".join(f"{count} {verdict.value}" for verdict, count in verdicts.items()))
    return 1 if verdicts[Verdict.DIFFERENT] else 0


def _show(report: Report) -> None:
    print(report, flush=True)


def _progress() -> Callable[[Verdicts], None]:
    began = time.monotonic()

    def report(verdicts: Verdicts) -> None:
        if (played := verdicts.total()) % EVERY == 0:
            print(f"{played} played in {time.monotonic() - began:.0f} s", flush=True)

    return report


if __name__ == "__main__":
    sys.exit(main())
