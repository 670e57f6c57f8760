"""A replay as a program of its own, so that it can be killed with its JVM. Used by
:mod:`replay_crash`: ``python replaying.py STATE NAME=VALUE …``.

Pieces are small and follow one another at once, so that most kills meet one on its way.
"""

import sys
from pathlib import Path

from tests.spark_connector.stream.soak_query import session

from pyspark_arneb.pipeline import replay as job
from pyspark_arneb.pipeline.location import Location

MESSAGES_A_PIECE = 60


def main(state: Path, given: dict[str, str]) -> None:
    job.MESSAGES_A_PIECE = MESSAGES_A_PIECE  # type: ignore[misc]
    broker = Location(url=given["url"])
    choice = job.Choice([given["topic"]], sealed=given["sealed"])
    target = job.Target({given["way"]: given["target"]})
    report = job.replay(session(), broker, choice, target, state, progress=say)
    print("done", report.written, flush=True)


def say(plan: job.Plan) -> None:
    print("piece", plan.number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(each.split("=", 1) for each in sys.argv[2:]))
