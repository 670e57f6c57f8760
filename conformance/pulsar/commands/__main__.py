"""A table of every command of ``pulsar-admin`` on Apache Pulsar standalone and on Arneb.

``python -m conformance.pulsar.commands [--all]`` runs the script on both and prints the lines that
differ, or with ``--all`` every line. The exit status is 1 if something differs or is missing.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.commands.comparison import Line, Outcome
from conformance.pulsar.commands.playing import SETTINGS, SETTLES_S, play, table


def main() -> int:
    """Run the script on both brokers and print the table."""
    parser = argparse.ArgumentParser(prog="python -m conformance.pulsar.commands")
    parser.add_argument("--all", action="store_true", help="print every line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        apache = PulsarStandalone(place / "pulsar", **SETTINGS).start()
        try:
            pulsar = play(apache.http_url, apache.pulsar_url, place, SETTLES_S)
        finally:
            apache.stop()
        broker = Arneb(place / "arneb", listeners=["pulsar", "http-pulsar"]).start()
        try:
            arneb = play(broker.admin_url, broker.pulsar_url, place)
        finally:
            broker.stop()
    lines = table(pulsar, arneb)
    for line in lines:
        if options.all or line.outcome in (Outcome.OTHER, Outcome.MISSING):
            print(printed(line))
    counts = Counter(line.outcome for line in lines)
    commands = len({" ".join(line.command.split()[:2]) for line in lines})
    print(f"{commands} commands, {len(lines)} lines: ", end="")
    print(", ".join(f"{counts[each]} {each.value}" for each in Outcome))
    return int(bool(counts[Outcome.OTHER] or counts[Outcome.MISSING]))


def printed(line: Line) -> str:
    """A line, with both answers if they differ."""
    if line.outcome is Outcome.SAME:
        return f"same      {line.command}"
    outcomes = f"  Pulsar  {line.pulsar}\n  Arneb   {line.arneb}"
    return f"{line.outcome.name.lower():9} {line.command}\n{outcomes}"


if __name__ == "__main__":
    sys.exit(main())
