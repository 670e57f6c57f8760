"""A hostile client that reads its answers, and chooses the moment or the order of what it sends
next.

``python -m tests.attack.timed THEME PORT SECONDS``.

The rule: it targets the broker's own optimisations. Each theme makes the broker spend time on
something that is meant to save time, so that other clients would have to wait.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pamqp.commands import Confirm, Queue
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.session.playbook import publishes
from tests.pulsar_frontend.raw_client import body_of
from tests.pulsar_frontend.session.playbook import received

from arneb_amqp.server.transport.polling import POLL_S
from arneb_pulsar.services.topics.deduplication import BATCHES_PER_TURN
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

QUEUE: Final = "attack-just-late"
JUST_LATE_S: Final = POLL_S - 1e-6
"""How long to wait after each answer: the broker then polls for more input as long as it may,
and still finds something."""

AGAIN: Final = "public/again"
"""A namespace with deduplication."""

BURSTS: Final = 8
"""How many turns' worth of duplicates are sent at once."""


def just_late(port: int, until: float) -> int:
    """Publish, wait for the confirm and then a moment longer, repeatedly; the result is how
    often."""
    count = 0
    with RawClient(port) as client:
        client.open()
        client.send(Queue.Declare, 1, queue=QUEUE, durable=True)
        client.expect(Queue.DeclareOk)
        client.send(Confirm.Select, 1)
        client.expect(Confirm.SelectOk)
        publish = publishes(b"x", key=QUEUE).data
        stream = client.socket
        while time.monotonic() < until:
            stream.sendall(publish)
            stream.recv(4096)
            late = time.perf_counter() + JUST_LATE_S
            while time.perf_counter() < late:
                pass
            count += 1
    return count


def duplicates(port: int, until: float) -> int:
    """Send one message again and again, alternately inside and outside a transaction; the result is
    how often."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
        reader = FrameReader()

        def heard() -> Iterator[pb.BaseCommand]:
            while True:
                for command in reader.receive(stream.recv(1 << 18))[0]:
                    yield pb.BaseCommand.FromString(command)

        answers = heard()
        stream.sendall(received(pb.CommandConnect(client_version="x", protocol_version=20)).data)
        next(answers)
        topic = f"persistent://{AGAIN}/duplicates"
        producer = pb.CommandProducer(topic=topic, producer_id=1, request_id=1, producer_name="p")
        stream.sendall(received(producer).data)
        next(answers)
        stream.sendall(received(pb.CommandNewTxn(request_id=2, txn_ttl_seconds=3600)).data)
        begun = next(answers).newTxnResponse
        body = body_of(b"x", producer_name="p", sequence_id=5)
        outside = pb.CommandSend(producer_id=1, sequence_id=5)
        inside = pb.CommandSend(
            producer_id=1, sequence_id=5, txnid_least_bits=begun.txnid_least_bits,
            txnid_most_bits=begun.txnid_most_bits,
        )  # fmt: skip
        pair = received(outside, body=body).data + received(inside, body=body).data
        count, each = 0, BURSTS * BATCHES_PER_TURN
        while time.monotonic() < until:
            new = pb.CommandSend(producer_id=1, sequence_id=6 + count)
            stored = body_of(b"x", producer_name="p", sequence_id=6 + count)
            stream.sendall(received(new, body=stored).data + pair * (each // 2))
            for _ in range(1 + each):
                next(answers)
            count += 1
    return count * each


THEMES: Final[Mapping[str, tuple[str, Callable[[int, float], int]]]] = {
    "just-late": ("amqp", just_late),
    "duplicates": ("pulsar", duplicates),
}
"""The themes by name: the listener, and what is done there."""


def main() -> None:
    os.nice(5)
    theme, port, seconds = sys.argv[1:]
    count = THEMES[theme][1](int(port), time.monotonic() + float(seconds))
    assert count, "nothing was answered"
    print(f"{theme}: {count} messages")


if __name__ == "__main__":
    main()
