"""One node of a shard as a process: it publishes while it leads, and prints what is confirmed.

``python -m tests.cluster.kills.one_node URL TOPIC NAME DIRECTORY`` prints a line when it begins to
serve, and one for each confirm, as soon as it is allowed to. On SIGUSR1 it stops publishing.
"""

import logging
import signal
import sys
from itertools import count
from pathlib import Path

import trio

from arneb_cluster.replica import Replica
from arneb_cluster.settings import ShardSettings
from arneb_cluster.shard import Shard
from arneb_core.api.errors import CommitFailed
from arneb_core.engine.engine import Engine
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import make_entry
from arneb_pulsar.client import ClientOptions, connect

PUBLISHERS = 8
"""Each waits for its confirm, so several records are in flight whenever the process is killed."""

PAUSE_S = 0.005


class Publishers:
    """What a leader's clients would do."""

    def __init__(self, name: str, shard: "Shard | None" = None) -> None:
        self.name = name
        self.shard = shard
        self.is_quiet = False

    async def serve(self, core: Engine) -> None:
        assert self.shard is not None
        epoch = self.shard.node.reader.epoch
        if "orders" not in core.topics:
            await core.create_topic("orders", subscriptions=["amqp"])
        print("serves", epoch, flush=True)
        async with trio.open_nursery() as nursery:
            for number in range(PUBLISHERS):
                nursery.start_soon(self._publish, core, f"{self.name}.{epoch}.{number}")
            await trio.sleep_forever()

    async def _publish(self, core: Engine, prefix: str) -> None:
        assert self.shard is not None
        for number in count():
            if self.is_quiet:
                return
            body = f"{prefix}.{number}".encode()
            done = trio.Event()
            errors: list[CommitFailed | None] = []

            def ended(
                error: CommitFailed | None, _: object, done: trio.Event = done,
                errors: list[CommitFailed | None] = errors,
            ) -> None:  # fmt: skip
                errors.append(error)
                done.set()

            core.append(core.topic("orders"), [make_entry(body)], ended)
            await done.wait()
            if errors == [None] and self.shard.serves():
                print("confirmed", body.decode(), flush=True)
            elif errors != [None]:
                return
            await trio.sleep(PAUSE_S)


async def run(url: str, topic: str, name: str, path: Path) -> None:
    with Store.open(path, follows=True) as store:
        options = ClientOptions(backoff_cap_s=1.0, statistics_interval_s=0.0)
        async with connect(url, options) as client:
            publishers = Publishers(name)
            settings = ShardSettings("orders", name, topic)
            publishers.shard = shard = Shard(client, settings, Replica(store), publishers.serve)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(shard.run)
                nursery.start_soon(say_where, shard)
                with trio.open_signal_receiver(signal.SIGUSR1) as signals:
                    async for _ in signals:
                        publishers.is_quiet = True


async def say_where(shard: Shard) -> None:
    while True:
        print("at", shard.replica.applied.link.number, flush=True)
        await trio.sleep(0.3)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arneb_cluster").setLevel(logging.INFO)
    trio.run(run, sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
