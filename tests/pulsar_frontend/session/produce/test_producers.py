"""Producers: opening, runs of messages, receipts in send order, closing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.session.playbook import CLOCK_MS, Playbook, Received, received, sent

from arneb_core.api.entries.entry import HEADER_BYTES, read_header
from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import StoreFailed
from arneb_pulsar.names import parse_topic
from arneb_pulsar.packing import entries
from arneb_pulsar.producers.access import AccessMode
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import AppendRun, Close, LeaveProducer, OpenProducer
from arneb_pulsar.session.interface.events import (
    Appended,
    ProducerDisconnected,
    ProducerLost,
    ProducerOpened,
    ProducerQueued,
    ProducerRefused,
)
from arneb_pulsar.session.produce.producers import Producer
from arneb_pulsar.session.transitions import PRODUCER_MOVES, ProducerInput, ProducerState
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandProducer, CommandSend, MessageMetadata


def body(payload: bytes = b"x", sequence_id: int = 0) -> bytes:
    head = MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1)
    return join_body(head.SerializeToString(), payload)


DAMAGED = body()[:-1] + b"\xff"


def sends(*messages: tuple[int, int, bytes]) -> Received:
    """SENDs of (producer id, sequence id, body) in one piece."""
    return Received(
        b"".join(
            received(CommandSend(producer_id=each, sequence_id=sequence), body=payload).data
            for each, sequence, payload in messages
        )
    )


def open_producer(play: Playbook, producer_id: int = 1, topic: str = "t", name: str = "me") -> int:
    """Open a producer; its key."""
    play >> received(CommandProducer(topic=topic, producer_id=producer_id, request_id=5))
    key = play.take(OpenProducer).key
    (
        play
        >> ProducerOpened(key, name)
        << sent(
            pb.CommandProducerSuccess(
                request_id=5, producer_name=name, last_sequence_id=-1, schema_version=b""
            )
        )
    )
    return key


def receipt(sequence_id: int, ledger: int, entry: int, producer_id: int = 1) -> object:
    place = pb.MessageIdData(ledgerId=ledger, entryId=entry)
    return sent(
        pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence_id, message_id=place)
    )


def send_error(sequence_id: int, code: int, text: str) -> object:
    return sent(
        pb.CommandSendError(producer_id=1, sequence_id=sequence_id, error=code, message=text)
    )


def checksum_error(sequence_id: int) -> object:
    return send_error(sequence_id, pb.ChecksumError, "Checksum failed on the broker")


def test_a_producer_is_opened_by_the_shell() -> None:
    play = Playbook() >> received(
        CommandProducer(
            topic="orders",
            producer_id=3,
            request_id=5,
            producer_name="me",
            epoch=2,
            topic_epoch=7,
            producer_access_mode=pb.WaitForExclusive,
            initial_subscription_name="dead",
        )
    )
    mode = AccessMode.WAIT_FOR_EXCLUSIVE
    play << OpenProducer(1, 3, parse_topic("orders"), "me", mode, 7, "dead")
    play.over()
    (
        play
        >> ProducerOpened(1, "me")
        << sent(
            pb.CommandProducerSuccess(
                request_id=5, producer_name="me", last_sequence_id=-1, schema_version=b""
            )
        )
    )
    play.over()


def test_a_refused_producer_gets_the_reason() -> None:
    play = Playbook() >> received(CommandProducer(topic="t", producer_id=3, request_id=5))
    key = play.take(OpenProducer).key
    play >> ProducerRefused(key, Failure(pb.ProducerBusy, "taken"))
    play << sent(pb.CommandError(request_id=5, error=pb.ProducerBusy, message="taken"))
    play.over()
    play >> received(CommandProducer(topic="t", producer_id=3, request_id=6))
    play.take(OpenProducer)


def queued_producer() -> tuple[Playbook, int]:
    """A producer that waits to be exclusive."""
    mode = pb.WaitForExclusive
    command = CommandProducer(topic="t", producer_id=3, request_id=5, producer_access_mode=mode)
    play = Playbook() >> received(command)
    key = play.take(OpenProducer).key
    play >> ProducerQueued(key, "me")
    play << sent(
        pb.CommandProducerSuccess(
            request_id=5,
            producer_name="me",
            last_sequence_id=-1,
            schema_version=b"",
            producer_ready=False,
        )
    )
    return play, key


def test_a_producer_that_waited_is_answered_twice() -> None:
    play, key = queued_producer()
    play.over()
    play >> ProducerOpened(key, "me", 4)
    play << sent(
        pb.CommandProducerSuccess(
            request_id=5, producer_name="me", last_sequence_id=-1, schema_version=b"", topic_epoch=4
        )
    )
    play.over()


def test_a_producer_that_waits_may_leave_or_lose_its_place() -> None:
    play, key = queued_producer()
    play >> received(pb.CommandCloseProducer(producer_id=3, request_id=6))
    play << LeaveProducer(key) << sent(pb.CommandSuccess(request_id=6))
    play.over()
    play, key = queued_producer()
    play >> ProducerLost(key, Failure(pb.ProducerFenced, "out"))
    play << sent(pb.CommandError(request_id=5, error=pb.ProducerFenced, message="out"))
    play.over()


def test_a_producer_that_waits_is_sent_away_with_its_topic() -> None:
    play, key = queued_producer()
    play >> ProducerDisconnected(key)
    text = "Topic is temporarily unavailable"
    play << LeaveProducer(key)
    play << sent(pb.CommandError(request_id=5, error=pb.ServiceNotReady, message=text))
    play.over()


def test_a_producer_that_was_fenced_out_hears_of_it_when_it_sends() -> None:
    play = Playbook()
    key = open_producer(play)
    play >> ProducerLost(key, Failure(pb.ProducerFenced, "out"))
    play.over()
    play >> sends((1, 0, body()))
    play.take(Close)


def test_a_producer_that_was_fenced_out_hears_what_became_of_what_it_had_sent() -> None:
    play = Playbook()
    key = open_producer(play)
    play >> sends((1, 0, body()))
    first = play.take(AppendRun)
    play >> sends((1, 1, body(sequence_id=1)))
    second = play.take(AppendRun)
    play >> ProducerLost(key, Failure(pb.ProducerFenced, "out"))
    play.over()
    # Another of the same number on the connection hears nothing of it.
    open_producer(play)
    play >> Appended(second, StoreFailed("no"), position_at(0, 0))
    play.over()
    play >> Appended(first, None, position_at(7, 5))
    place = pb.MessageIdData(ledgerId=7, entryId=5)
    play << sent(pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=place))
    play << sent(
        pb.CommandSendError(producer_id=1, sequence_id=1, error=pb.PersistenceError, message="no")
    )
    play.over()


def test_a_producer_that_was_fenced_out_while_closing_is_closed() -> None:
    play = Playbook()
    key = open_producer(play)
    play >> sends((1, 0, body()))
    play.take(AppendRun)
    play >> received(pb.CommandCloseProducer(producer_id=1, request_id=6))
    play >> ProducerLost(key, Failure(pb.ProducerFenced, "out"))
    play << sent(pb.CommandSuccess(request_id=6))
    play.over()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": ""}, pb.InvalidTopicName),
        ({"producer_name": "x" * 1025}, pb.NotAllowedError),
        ({"topic": "a/b/c/d"}, pb.TopicNotFound),
    ],
)
def test_what_there_is_not_is_refused_at_once(fields: dict[str, object], code: int) -> None:
    command = CommandProducer(**{"topic": "t", "producer_id": 1, "request_id": 5} | fields)
    play = Playbook() >> received(command)
    answer = play.heard().command
    assert (answer.request_id, answer.error) == (5, code)
    play.over()


def test_a_second_producer_of_the_same_id_is_the_first() -> None:
    play = Playbook() >> received(CommandProducer(topic="t", producer_id=1, request_id=5))
    play >> received(CommandProducer(topic="t", producer_id=1, request_id=6))
    assert play.heard().command.error == pb.ServiceNotReady
    key = play.take(OpenProducer).key
    play >> ProducerOpened(key, "me")
    play.heard()
    play >> received(CommandProducer(topic="t", producer_id=1, request_id=7))
    play << sent(
        pb.CommandProducerSuccess(
            request_id=7, producer_name="me", last_sequence_id=-1, schema_version=b""
        )
    )
    play.over()


def test_one_receive_is_one_run_for_each_topic() -> None:
    play = Playbook()
    first = open_producer(play, 1, "a")
    second = open_producer(play, 2, "b")
    open_producer(play, 3, "a")
    play >> sends((1, 0, body(b"0")), (2, 0, body(b"1")), (3, 9, body(b"2")), (1, 1, body(b"3")))
    run_a, run_b = play.take(AppendRun), play.take(AppendRun)
    assert (run_a.key, run_b.key) == (first, second)
    assert [entry[HEADER_BYTES:] for entry in run_a.entries] == [body(b"0"), body(b"2"), body(b"3")]
    assert read_header(run_b.entries[0]).publish_time_ms == CLOCK_MS
    play.over()
    play >> Appended(run_b, None, position_at(1, 7)) << receipt(0, 1, 7, producer_id=2)
    play >> Appended(run_a, None, position_at(2, 40))
    answers = sorted(
        (each.producer_id, each.sequence_id, each.message_id.entryId)
        for each in (play.heard().command for _ in range(3))
    )
    assert answers == [(1, 0, 40), (1, 1, 42), (3, 9, 41)]
    play.over()


def test_a_producer_is_known_by_its_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sends in later turns is told by the form of its metadata, without parsing it."""
    play = Playbook()
    open_producer(play)
    play >> sends((1, 0, body()))
    assert len(play.take(AppendRun).entries) == 1
    monkeypatch.setattr(entries, "parse_metadata", None)
    play >> sends((1, 1, body(sequence_id=1)))
    assert [each[HEADER_BYTES:] for each in play.take(AppendRun).entries] == [body(sequence_id=1)]


def test_no_receipt_before_the_run_is_durable() -> None:
    play = Playbook()
    open_producer(play)
    play >> sends((1, 0, body()))
    run = play.take(AppendRun)
    play.over()
    play >> Appended(run, None, position_at(3, 4)) << receipt(0, 3, 4)
    play.over()


def test_a_failed_run_is_refused_message_by_message() -> None:
    play = Playbook()
    open_producer(play)
    play >> sends((1, 0, body()), (1, 1, body()))
    play >> Appended(play.take(AppendRun), StoreFailed("disk"), position_at(0, 0))
    play << send_error(0, pb.PersistenceError, "disk")
    play << send_error(1, pb.PersistenceError, "disk")
    play.over()


def test_a_batch_is_confirmed_with_its_highest_sequence_id() -> None:
    play = Playbook()
    open_producer(play)
    send = CommandSend(producer_id=1, sequence_id=10, highest_sequence_id=19, num_messages=10)
    play >> received(send, body=body())
    play >> Appended(play.take(AppendRun), None, position_at(1, 0))
    answer = play.heard().command
    assert (answer.sequence_id, answer.highest_sequence_id) == (10, 19)


def test_every_chunk_of_messages_that_come_together_is_one() -> None:
    """The last chunk of a message and the first of the next have successive numbers."""
    play = Playbook()
    open_producer(play)
    numbers = [1, 1, 2, 2, 3, 3]
    play >> Received(
        b"".join(
            received(CommandSend(producer_id=1, sequence_id=each, is_chunk=True), body=body()).data
            for each in numbers
        )
    )
    (sent,) = play.take(AppendRun).sends
    assert (sent.sequences, sent.chunks) == (numbers, set(range(6)))


def test_a_damaged_message_is_refused_in_its_turn() -> None:
    play = Playbook()
    open_producer(play)
    play >> sends((1, 0, body(b"0")), (1, 1, DAMAGED), (1, 2, body(b"2")))
    run = play.take(AppendRun)
    assert [entry[HEADER_BYTES:] for entry in run.entries] == [body(b"0"), body(b"2")]
    play.over()
    play >> Appended(run, None, position_at(1, 0))
    play << receipt(0, 1, 0) << checksum_error(1) << receipt(2, 1, 1)
    play.over()


def test_a_damaged_message_waits_for_earlier_runs() -> None:
    play = Playbook()
    open_producer(play)
    play >> sends((1, 0, body()))
    earlier = play.take(AppendRun)
    play >> sends((1, 1, DAMAGED))
    play.over()
    play >> Appended(earlier, None, position_at(1, 0)) << receipt(0, 1, 0) << checksum_error(1)
    play.over()


def test_a_damaged_message_alone_is_refused_at_once() -> None:
    play = Playbook()
    open_producer(play)
    play >> sends((1, 5, DAMAGED)) << checksum_error(5)
    play.over()


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=20))
def test_each_producer_hears_in_the_order_in_which_it_sent(
    plan: list[tuple[int, bool]],
) -> None:
    """Whatever mixture of producers, topics and damage one receive brings."""
    play = Playbook()
    for producer_id, topic in ((1, "a"), (2, "a"), (3, "b")):
        open_producer(play, producer_id, topic, f"p{producer_id}")
    messages = [
        (producer_id, number, body(b"%d" % number) if good else DAMAGED)
        for number, (producer_id, good) in enumerate(plan)
    ]
    play >> sends(*messages)
    runs = [each for each in play._effects if isinstance(each, AppendRun)]
    play._effects.clear()
    for ledger, run in enumerate(reversed(runs)):
        assert sum(len(each.sequences) for each in run.sends) == len(run.entries)
        play >> Appended(run, None, position_at(ledger + 1, 0))
    calls: dict[int, list[tuple[int, bool]]] = {}
    while play._frames:
        command = play.heard().command
        is_receipt = isinstance(command, pb.CommandSendReceipt)
        calls.setdefault(command.producer_id, []).append((command.sequence_id, is_receipt))
    for producer_id in (1, 2, 3):
        expected = [
            (number, good) for number, (each, good) in enumerate(plan) if each == producer_id
        ]
        assert calls.get(producer_id, []) == expected


def sent_in(play: Playbook, *sent: tuple[int, int, int]) -> list[tuple[int, list[int]]]:
    """The runs of what is sent at once, each by its transaction (0: none) and sequence ids; of
    each message are given the producer, the sequence id and the transaction."""
    data = b""
    for producer_id, number, transaction in sent:
        command = CommandSend(producer_id=producer_id, sequence_id=number)
        if transaction:
            command.txnid_most_bits, command.txnid_least_bits = 1, transaction
        data += received(command, body=body()).data
    play >> Received(data)
    runs = [each for each in play._effects if isinstance(each, AppendRun)]
    play._effects.clear()
    return [
        (
            run.transaction.least_bits if run.transaction else 0,
            [number for each in run.sends for number in each.sequences],
        )
        for run in runs
    ]


def test_messages_of_a_transaction_are_a_run_of_their_own() -> None:
    play = Playbook()
    open_producer(play)
    open_producer(play, 2, name="other")
    found = sent_in(play, (1, 3, 7), (2, 3, 0), (1, 4, 7), (2, 4, 0), (1, 5, 7))
    assert found == [(7, [3, 4, 5]), (0, [3, 4])]
    assert sent_in(play, (1, 6, 0), (2, 5, 0)) == [(0, [6, 5])]


def test_a_producer_that_changes_between_transactions_keeps_its_order() -> None:
    """Or deduplication takes what is behind for stored already."""
    play = Playbook()
    open_producer(play)
    open_producer(play, 2, name="other")
    found = sent_in(play, (1, 3, 7), (1, 4, 8), (1, 5, 7), (1, 6, 0), (2, 0, 8), (1, 7, 8))
    assert found == [(7, [3]), (8, [4, 0]), (7, [5]), (0, [6]), (8, [7])]


def test_sends_that_do_not_follow_one_another_take_several_turns() -> None:
    play = Playbook()
    open_producer(play)
    sends = [CommandSend(producer_id=1, sequence_id=2 * each) for each in range(250)]
    data = b"".join(received(each, body=body()).data for each in sends)
    effects = [play.session.receive_data(data, play.now, play.clock_ms)]
    while play.session.has_more:
        effects.append(play.session.handle_more(play.now, play.clock_ms))
    runs = [each for turn in effects for each in turn if isinstance(each, AppendRun)]
    numbers = [[s for sent in run.sends for s in sent.sequences] for run in runs]
    assert [len(each) for each in numbers] == [100, 100, 50]
    assert [s for each in numbers for s in each] == [each.sequence_id for each in sends]


def test_a_message_of_no_producer_ends_the_connection() -> None:
    play = Playbook() >> sends((7, 0, body()))
    assert play.heard().command.error == pb.UnknownError
    play.take(Close)
    play.over()


def test_what_was_sent_before_the_breach_is_kept() -> None:
    play = Playbook()
    open_producer(play)
    play >> sends((1, 0, body()), (7, 0, body()))
    assert len(play.take(AppendRun).entries) == 1
    play.take(Close)


def test_closing_waits_for_the_last_receipt() -> None:
    play = Playbook()
    key = open_producer(play)
    close = pb.CommandCloseProducer(producer_id=1, request_id=9)
    play >> Received(sends((1, 0, body())).data + received(close).data)
    run = play.take(AppendRun)
    play.over()
    play >> Appended(run, None, position_at(1, 0))
    play << receipt(0, 1, 0) << sent(pb.CommandSuccess(request_id=9)) << LeaveProducer(key)
    play.over()
    play >> received(close) << sent(pb.CommandSuccess(request_id=9))
    play.over()


def test_closing_while_opening_gives_up_what_is_opened() -> None:
    play = Playbook() >> received(CommandProducer(topic="t", producer_id=1, request_id=5))
    key = play.take(OpenProducer).key
    play >> received(pb.CommandCloseProducer(producer_id=1, request_id=6))
    play << sent(pb.CommandSuccess(request_id=6))
    play >> ProducerOpened(key, "me") << LeaveProducer(key)
    play.over()


def test_a_producer_whose_topic_is_gone_has_to_reopen() -> None:
    play = Playbook()
    key = open_producer(play)
    play >> sends((1, 0, body()))
    run = play.take(AppendRun)
    play >> ProducerDisconnected(key) << LeaveProducer(key)
    play << sent(pb.CommandCloseProducer(producer_id=1, request_id=(1 << 64) - 1))
    play >> Appended(run, StoreFailed("gone"), position_at(0, 0))
    play >> sends((1, 1, body()))
    play.over()
    assert open_producer(play) != key
    play >> sends((1, 0, body()))
    play.take(AppendRun)


def test_sends_of_an_expelled_producer_are_ignored_for_a_while_only() -> None:
    play = Playbook()
    play >> ProducerDisconnected(open_producer(play))
    play.heard()
    play.take(LeaveProducer)
    play.now += 29
    play >> sends((1, 1, body()))
    play.over()
    play.now += 2
    play >> sends((1, 2, body()))
    play.take(Close)


@pytest.mark.parametrize("state", ProducerState)
@pytest.mark.parametrize("happened", ProducerInput)
def test_a_producer_moves_along_the_table_only(
    state: ProducerState, happened: ProducerInput
) -> None:
    producer = Producer(1, 1, 1, parse_topic("t"))
    producer.state = state
    if (state, happened) in PRODUCER_MOVES:
        producer.move(happened)
        assert producer.state is PRODUCER_MOVES[state, happened]
    else:
        with pytest.raises(KeyError):
            producer.move(happened)
        assert producer.state is state
