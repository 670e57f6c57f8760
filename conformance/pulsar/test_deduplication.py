"""A message that a producer sends again is stored once, whatever happens to the broker
meanwhile."""

import threading

import pulsar
import pytest
from conformance.pulsar.conftest import Mortal
from conformance.pulsar.helpers import assert_gets, numbers

EARLIEST = pulsar.InitialPosition.Earliest
SETTINGS = "[pulsar]\ndeduplication = true\n"

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def keep(client: pulsar.Client) -> None:
    """Create a subscription that keeps everything."""
    client.subscribe("t", "all", initial_position=EARLIEST).close()


def assert_stored(client: pulsar.Client, expected: list[bytes]) -> None:
    """Check that each message is stored once, in order."""
    assert_gets(client.subscribe("t", "all", initial_position=EARLIEST), expected)


def test_a_number_is_stored_once(mortal: Mortal) -> None:
    broker = mortal(SETTINGS)
    client = pulsar.Client(broker.pulsar_url, logger=QUIET)
    keep(client)
    producer = client.create_producer("t", producer_name="me", initial_sequence_id=0)
    ids = [producer.send(b"%d" % number, sequence_id=number) for number in (5, 6, 6, 5, 9)]
    assert [each.ledger_id() == -1 for each in ids] == [False, False, True, True, False]
    assert producer.last_sequence_id() == 9
    broker.kill()
    broker.start()
    assert producer.send(b"again", sequence_id=9).ledger_id() == -1
    producer.close()
    producer = client.create_producer("t", producer_name="me")
    assert producer.last_sequence_id() == 9
    producer.send(b"next")
    assert producer.last_sequence_id() == 10
    assert_stored(client, [b"5", b"6", b"9", b"next"])
    client.close()


@pytest.mark.parametrize("options", [{}, {"batching_enabled": True}], ids=["single", "batches"])
def test_kills_under_load_lose_and_double_nothing(
    mortal: Mortal, options: dict[str, object]
) -> None:
    broker = mortal(SETTINGS)
    client = pulsar.Client(broker.pulsar_url, logger=QUIET)
    producer = client.create_producer(
        "t", producer_name="me", block_if_queue_full=True, max_pending_messages=100, **options
    )
    keep(client)
    results: list[pulsar.Result] = []
    over = threading.Event()

    def send() -> None:
        number = 0
        while not over.is_set():
            producer.send_async(b"%d" % number, lambda result, _: results.append(result))
            number += 1
        producer.flush()

    sender = threading.Thread(target=send)
    sender.start()
    for _ in range(2):
        over.wait(0.4)
        broker.kill()
        broker.start()
    over.wait(0.4)
    over.set()
    sender.join()
    assert set(results) == {pulsar.Result.Ok}
    assert_stored(client, numbers(len(results)))
    client.close()


def test_chunked_messages_are_stored_once(mortal: Mortal) -> None:
    broker = mortal(SETTINGS)
    client = pulsar.Client(broker.pulsar_url, logger=QUIET)
    keep(client)
    producer = client.create_producer("t", producer_name="me", chunking_enabled=True)
    large = bytes(range(256)) * 48 * 1024
    for number in (3, 3, 4):
        producer.send(large + b"%d" % number, sequence_id=number)
    assert_stored(client, [large + b"3", large + b"4"])
    client.close()
