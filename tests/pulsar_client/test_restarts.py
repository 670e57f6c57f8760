"""A broker that dies under load, and comes back: nothing that was confirmed is lost, the order of
each producer is kept, and with deduplication nothing comes twice.

``--client-kills 100`` is the long run.
"""

from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
from tests.pulsar_client.conftest import KILLS, OwnArneb, until

from arneb_pulsar.client import (
    Batching,
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.errors import QueueFull

PRODUCERS = 3


class Load:
    """Producers that number what they send, and a consumer that notes what came."""

    def __init__(self) -> None:
        self.confirmed: dict[int, int] = dict.fromkeys(range(PRODUCERS), -1)
        self.sent: dict[int, int] = dict.fromkeys(range(PRODUCERS), -1)
        self.failed: list[Exception] = []
        self.came: dict[int, list[int]] = {number: [] for number in range(PRODUCERS)}
        self.stopping = False

    async def produce(self, client: Client, topic: str, which: int) -> None:
        options = ProducerOptions(
            name=f"p{which}",
            send_timeout_s=0,
            batching=Batching(messages_max=20, delay_s=0.002) if which else None,
        )
        producer = await client.create_producer(topic, options)

        def told(number: int, found: MessageId | None, error: Exception | None) -> None:
            if found is None:
                self.failed.append(error or AssertionError("neither id nor error"))
            else:
                self.confirmed[which] = max(self.confirmed[which], number)

        while not self.stopping:
            number = self.sent[which] + 1
            try:
                producer.send_nowait(
                    b"%d %d" % (which, number),
                    callback=lambda found, error, number=number: told(number, found, error),  # type: ignore[misc]
                )
                self.sent[which] = number
            except QueueFull:
                await producer.wait_for_room()
            await anyio.sleep(0.001)
        await producer.close()

    async def consume(self, client: Client, topic: str) -> None:
        options = ConsumerOptions(
            type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST
        )
        consumer = await client.subscribe(topic, "s", options)
        async for message in consumer:
            which, number = map(int, message.data.split())
            self.came[which].append(number)
            consumer.acknowledge(message)

    def all_came(self) -> bool:
        return all(
            self.sent[which] == self.confirmed[which]
            and set(numbers) >= set(range(self.sent[which] + 1))
            for which, numbers in self.came.items()
        )


@pytest.mark.parametrize("deduplicated", [True])
async def test_a_killed_broker_loses_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, backend: str, deduplicated: bool
) -> None:
    kills = request.config.getoption("--client-kills", KILLS)
    broker = OwnArneb(tmp_path, listeners=("pulsar", "http-pulsar")).start()
    ports = {
        "pulsar": broker.pulsar_address.port,
        "http-pulsar": int(broker.http_url.rsplit(":", 1)[1]),
    }
    broker = stopped_and_started(broker, tmp_path, ports)
    url, topic, load = broker.pulsar_url, "persistent://public/default/load", Load()
    async with httpx.AsyncClient() as http:
        path = f"{broker.http_url}/admin/v2/namespaces/public/default/deduplication"
        answer = await http.post(path, json=deduplicated)
        answer.raise_for_status()
    try:
        async with (
            connect(url, ClientOptions(seed=1)) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(load.consume, client, topic)
            for which in range(PRODUCERS):
                tasks.start_soon(load.produce, client, topic, which)
            before = dict(load.confirmed)
            for _ in range(kills):
                await anyio.sleep(0.7)
                broker.kill()
                before.update(load.confirmed)
                broker = await anyio.to_thread.run_sync(
                    stopped_and_started, broker, tmp_path, ports
                )
                await until(lambda: all(load.confirmed[each] > before[each] for each in before))
            load.stopping = True
            await until(load.all_came)
            tasks.cancel_scope.cancel()
    finally:
        broker.stop()
    assert not load.failed
    for which, numbers in load.came.items():
        once = list(dict.fromkeys(numbers))
        # What was not acknowledged comes again, in its old order.
        assert once == sorted(once)
        assert once == list(range(load.sent[which] + 1))


def stopped_and_started(broker: OwnArneb, directory: Path, ports: dict[str, int]) -> OwnArneb:
    """The broker again, on the same data and the same ports."""
    broker.stop()
    return OwnArneb(directory, listeners=("pulsar", "http-pulsar"), ports=ports).start()
