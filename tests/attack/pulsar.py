"""What a hostile Pulsar client sends: every command, with the largest, deepest and most
arguments."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf.message import Message
from tests.pulsar_frontend.raw_client import body_of
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SPACE: Final = "public/default"
LARGE_TOPIC: Final = "attack-large"
"""The queue with large messages, as a topic."""

Theme = Callable[[random.Random], bytes]


def frames(*commands: Message) -> bytes:
    return received(*commands).data


def opening() -> bytes:
    return frames(pb.CommandConnect(client_version="x" * 10_000, protocol_version=20))


def lists(_: random.Random) -> bytes:
    return frames(
        *[pb.CommandGetTopicsOfNamespace(request_id=n, namespace=SPACE) for n in range(500)]
    )


def patterns(chance: random.Random) -> bytes:
    """Patterns that are expensive to match."""
    texts = (".*", f"{SPACE}/(a|b)*a(a|b){{60}}", f"{SPACE}/((a*)*|(b*)*)*c", "(.*)" * 100)
    return frames(
        *[
            pb.CommandGetTopicsOfNamespace(
                request_id=number, namespace=SPACE, topics_pattern=chance.choice(texts)
            )
            for number in range(100)
        ]
    )


def watchers(chance: random.Random) -> bytes:
    found = []
    for number in range(150):
        found.append(
            pb.CommandWatchTopicList(
                request_id=number, watcher_id=chance.randrange(100), namespace=SPACE,
                topics_pattern=chance.choice((".*", "x|" * 400 + "y")),
            )
        )  # fmt: skip
        found.append(pb.CommandWatchTopicListClose(request_id=1, watcher_id=chance.randrange(200)))
    return frames(*found)


def lookups(chance: random.Random) -> bytes:
    found = []
    for number in range(500):
        topic = f"attack-{chance.randrange(20)}-" + "t" * 500
        found.append(pb.CommandLookupTopic(topic=topic, request_id=number))
        found.append(pb.CommandPartitionedTopicMetadata(topic="x" * 5000, request_id=number))
        found.append(pb.CommandGetSchema(request_id=number, topic=topic))
        found.append(pb.CommandNewTxn(request_id=number))
        found.append(pb.CommandPing())
    return frames(*found)


def producers(chance: random.Random) -> bytes:
    """Creates and closes producers with much metadata, and sends messages."""
    metadata = [pb.KeyValue(key=f"k{n}", value="v" * 1000) for n in range(50)]
    found = b""
    for number in range(100):
        topic = f"non-persistent://{SPACE}/attack-{chance.randrange(20)}"
        found += frames(
            pb.CommandProducer(
                topic=topic, producer_id=number, request_id=number, metadata=metadata
            )
        )
        send = pb.CommandSend(producer_id=number, sequence_id=1)
        found += received(send, body=body_of(bytes(chance.choice((1, 100_000))))).data
        found += frames(pb.CommandCloseProducer(producer_id=number, request_id=number))
    return found


def subscribers(chance: random.Random) -> bytes:
    """Every type of subscription to a large backlog, with every request that consumers can make."""
    some = [pb.MessageIdData(ledgerId=n % 7, entryId=n, ack_set=[n] * 20) for n in range(500)]
    found: list[Message] = []
    for number in range(40):
        consumer = {"consumer_id": number}
        found += [
            pb.CommandSubscribe(
                topic=LARGE_TOPIC, subscription=f"attack-{chance.randrange(4)}",
                subType=chance.randrange(4), request_id=number,
                initialPosition=pb.CommandSubscribe.Earliest, **consumer,
            ),
            pb.CommandFlow(messagePermits=1_000_000_000, **consumer),
            pb.CommandAck(ack_type=0, message_id=some, request_id=number, **consumer),
            pb.CommandRedeliverUnacknowledgedMessages(message_ids=some, **consumer),
            pb.CommandRedeliverUnacknowledgedMessages(**consumer),
            pb.CommandGetLastMessageId(request_id=number, **consumer),
            pb.CommandConsumerStats(request_id=number, **consumer),
            pb.CommandSeek(request_id=number, message_publish_time=0, **consumer),
            pb.CommandUnsubscribe(request_id=number, **consumer),
            pb.CommandCloseConsumer(request_id=number, **consumer),
        ]  # fmt: skip
    return frames(*found)


def transactions(chance: random.Random) -> bytes:
    """Opens transactions by the hundred and leaves them: with messages, topic names and
    subscriptions of the maximum length, also in transactions that others have opened, whose ids can
    be guessed because they count up."""
    topic = f"attack-{chance.randrange(20)}"
    found = [
        frames(
            pb.CommandProducer(topic=topic, producer_id=1, request_id=1),
            *[
                pb.CommandNewTxn(request_id=n, txn_ttl_seconds=chance.choice((1, 10**5, 10**9)))
                for n in range(600)
            ],
        )
    ]
    for number in range(300):
        which = chance.randrange(1, chance.choice((600, 10_000)))
        some = {"txnid_most_bits": 0, "txnid_least_bits": (1 << 32) + which}
        names = [f"{number}-{n}-" + "t" * 900 for n in range(chance.choice((1, 10, 100)))]
        subscribed = [pb.Subscription(topic=name, subscription="s" * 5_000) for name in names[:5]]
        send = pb.CommandSend(producer_id=1, sequence_id=number, **some)
        found += [
            frames(
                pb.CommandAddPartitionToTxn(request_id=number, partitions=names, **some),
                pb.CommandAddSubscriptionToTxn(request_id=1, subscription=subscribed, **some),
            ),
            received(send, body=body_of(bytes(chance.choice((1, 10_000, 60_000))))).data,
        ]
        if number % 30 == 0:
            action = chance.choice((pb.COMMIT, pb.ABORT))
            found.append(frames(pb.CommandEndTxn(request_id=2, txn_action=action, **some)))
    return b"".join(found)


def schemas(chance: random.Random) -> bytes:
    """Schemas that are as deep and as wide as possible."""
    nested: object = "string"
    for _ in range(150):
        nested = {"type": "array", "items": nested}
    fields = [{"name": f"f{n}", "type": "string", "default": ""} for n in range(300)]
    fields.append({"name": "deep", "type": nested, "default": []})
    data = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    texts = (data, b"[" * 100_000, b'"\\ud800"', data[:-5])
    return frames(
        *[
            pb.CommandGetOrCreateSchema(
                request_id=number, topic=LARGE_TOPIC,
                schema=pb.Schema(name="s", schema_data=chance.choice(texts), type=pb.Schema.Avro),
            )
            for number in range(20)
        ]
    )  # fmt: skip


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(1000)


THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each
    for each in (
        lists, patterns, watchers, lookups, producers, subscribers, transactions, schemas,
        noise,
    )
}  # fmt: skip
