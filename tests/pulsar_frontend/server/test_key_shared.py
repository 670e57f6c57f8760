"""Key_Shared subscriptions: what the broker's settings say of them."""

from itertools import count
from typing import Any

import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected

from arneb_core.api.encoding.hashing import key_hash
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

SLOTS = 1 << 16
HALVES = ((0, SLOTS // 2 - 1), (SLOTS // 2, SLOTS - 1))


def key_in(half: tuple[int, int]) -> str:
    """A key whose slot is in that half."""
    keys = (f"key-{number}" for number in count())
    return next(key for key in keys if half[0] <= key_hash(key.encode()) % SLOTS <= half[1])


async def publish(client: RawClient, key: str, messages: int) -> None:
    """So many messages of one key, one after the other."""
    for _ in range(messages):
        body = body_of(b"x", partition_key=key)
        await client.send(pb.CommandSend(producer_id=1, sequence_id=1), body=body)
        await client.expect(pb.CommandSendReceipt)


@pytest.mark.parametrize(
    ("waiting", "comes", "settings"),
    [
        (3, True, {"key_shared_look_ahead_per_consumer": 2}),
        (4, False, {"key_shared_look_ahead_per_consumer": 2}),
        (3, False, {"key_shared_look_ahead_per_subscription": 3}),
        (
            4,
            False,
            {
                "key_shared_look_ahead_per_consumer": 0,
                "key_shared_look_ahead_per_subscription": 0,
                "max_unacked_messages_per_consumer": 2,
            },
        ),
    ],
)
async def test_so_much_may_wait_for_the_turn_of_its_key_before_nothing_new_is_read(
    open_broker: OpenBroker, waiting: int, comes: bool, settings: dict[str, Any]
) -> None:
    async with open_broker(**settings) as running, connected(running.context) as (client,):
        for consumer, (start, end) in enumerate(HALVES, 1):
            sticky = pb.KeySharedMeta(
                keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=start, end=end)]
            )
            kind = pb.CommandSubscribe.Key_Shared
            await client.subscribe(consumer_id=consumer, subType=kind, keySharedMeta=sticky)
        await client.producer("t")
        await publish(client, key_in(HALVES[0]), waiting)
        await publish(client, key_in(HALVES[1]), 1)
        await client.flow(1, consumer_id=2)
        assert await client.silent() is not comes
        await client.flow(waiting, consumer_id=1)
        found = []
        for _ in range(waiting + 1):
            message = await client.expect(pb.CommandMessage)
            found.append(message.consumer_id)
            await client.acknowledge(message.message_id, consumer_id=message.consumer_id)
        assert sorted(found) == [1] * waiting + [2]
