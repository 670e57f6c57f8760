"""Fencing races: no record behind a higher TAKE is ever confirmed.

``python -m tests.cluster.fencing --races 1000 --seed 7`` starts Apache Pulsar (two brokers, three
bookies), or Arneb in its place (``--service arneb``), or uses ``--url`` and ``--http``. On many log
topics at once, a leader writes as fast as it can while another node fences it. In some races the
leader's connection is cut, there are two candidates, or the broker unloads the topic meanwhile.
Then the topics are read, and what the leaders confirmed must count. The run prints how often Pulsar
gave a receipt for a record behind the TAKE of a higher epoch.
"""

import argparse
import logging
import math
import sys
import time
from functools import partial
from random import Random
from uuid import uuid4

import trio
from conformance.brokers.pulsar_service import KINDS, NAMESPACE, pulsar_service
from tests.cluster.fencing.races import Course, Figures, RaceLost

from arneb_pulsar.client import ClientOptions, connect
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.errors import AdminError, PulsarError

TOPICS = 8
UNLOAD_PART = 0.05


async def race(
    url: str, http: str, races: int, seconds: float, topics: int, seed: int, unload_part: float
) -> Figures:
    """The whole run. Raises :class:`RaceLost`."""
    options = ClientOptions(backoff_cap_s=1.0, statistics_interval_s=0.0)
    chance = Random(seed)
    courses: list[Course] = []
    async with connect(url, options) as client, administer(http) as admin:

        async def unload(topic: str) -> None:
            try:
                await admin.unload(topic)
            except (AdminError, PulsarError) as error:
                logging.getLogger(__name__).info("%s was not unloaded: %s", topic, error)

        async with trio.open_nursery() as nursery:
            for number in range(topics):
                topic = f"persistent://{NAMESPACE}/races-{uuid4().hex[:8]}-{number}"
                course = Course(client, topic, Random(chance.random()), unload, unload_part)
                courses.append(course)
                nursery.start_soon(course.run, -(-races // topics), seconds)
    figures = Figures()
    for each in courses:
        figures.add(each.figures)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--races", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="race no longer than that")
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--service", choices=KINDS, default="cluster")
    parser.add_argument("--unload-part", type=float, default=UNLOAD_PART)
    parser.add_argument("--url", default="")
    parser.add_argument("--http", default="")
    wanted = parser.parse_args()
    seed = Random().randrange(1 << 20) if wanted.seed is None else wanted.seed
    print(f"seed {seed}", flush=True)
    with pulsar_service(wanted.service, wanted.url, wanted.http) as service:
        began = time.monotonic()
        work = partial(
            race,
            service.url,
            service.http,
            wanted.races,
            wanted.seconds,
            wanted.topics,
            seed,
            wanted.unload_part,
        )
        try:
            figures = trio.run(work)
        except BaseExceptionGroup as group:
            lost, others = group.split(RaceLost)
            if others is not None or lost is None:
                raise
            print(f"BROKEN with seed {seed}: {lost.exceptions!r}")
            return 1
        print(f"{figures}; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    sys.exit(main())
