"""Runs of SENDs are read as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import IDS, mutated, sends, simple_commands

import arneb_pulsar.wire.sends
from arneb_pulsar.wire.commands import parse_command
from arneb_pulsar.wire.counting import put_counting
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand, CommandSend
from arneb_pulsar.wire.sends import FIRST_LOOK, count_successors, parse_send


def encoded(send: CommandSend) -> bytes:
    return BaseCommand(type=BaseCommand.SEND, send=send).SerializeToString()


@given(st.one_of(sends(), sends().flatmap(mutated), simple_commands(), st.binary(max_size=20)))
def test_the_fast_way_reads_a_send_as_the_slow_way_or_not_at_all(data: bytes) -> None:
    fast = parse_send(data)
    if fast is not None:
        slow = parse_command(data)
        assert slow.type == BaseCommand.SEND
        assert slow.send == fast


def test_a_clients_send_is_read_the_fast_way() -> None:
    send = CommandSend(producer_id=0, sequence_id=0, num_messages=1)
    assert parse_send(encoded(send)) == send


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """SENDs that mostly count up, and now and then something else."""
    producer, number = draw(IDS), draw(IDS)
    found: list[bytes] = []
    for _ in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(1, 140))):
            send = CommandSend(producer_id=producer, sequence_id=number, num_messages=1)
            found.append(encoded(send))
            number = min(number + 1, (1 << 64) - 1)
        match draw(st.sampled_from(["jump", "other", "noise", "damage"])):
            case "jump":
                number = draw(IDS)
            case "other":
                found.append(draw(sends()))
            case "noise":
                found.append(draw(simple_commands()))
            case _:
                found.append(draw(mutated(found[-1])))
    return found


@given(streams())
def test_successors_are_the_sends_that_count_up(commands: list[bytes]) -> None:
    at = 0
    while at < len(commands):
        send = parse_send(commands[at])
        if send is None:
            at += 1
            continue
        count = count_successors(commands, at, send)
        expected = CommandSend()
        expected.CopyFrom(send)
        for command in commands[at + 1 : at + 1 + count]:
            expected.sequence_id += 1
            assert parse_send(command) == expected
        at += 1 + count


def test_producers_that_take_turns_do_not_have_all_the_rest_compared_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = [
        encoded(CommandSend(producer_id=producer, sequence_id=number + more, num_messages=1))
        for number in range(1_000, 3_000, 2)
        for producer in (1, 2)
        for more in (0, 1)
    ]
    compared = 0

    def put(into: bytearray, at: int, step: int, first: int) -> None:
        nonlocal compared
        compared += len(into) // step
        put_counting(into, at, step, first)

    monkeypatch.setattr(arneb_pulsar.wire.sends, "put_counting", put)
    at = 0
    while at < len(sent):
        send = parse_send(sent[at])
        assert send is not None
        assert count_successors(sent, at, send) == 1
        at += 2
    assert compared <= len(sent) // 2 * FIRST_LOOK


def test_commands_cut_elsewhere_are_no_successors() -> None:
    """Though, put together, they have the same bytes."""
    one, two, three, four = (
        encoded(CommandSend(producer_id=1, sequence_id=number, num_messages=1))
        for number in range(200, 204)
    )
    commands = [one, two, three + four[:1], four[1:]]
    send = parse_send(one)
    assert send is not None
    assert count_successors(commands, 0, send) == 1


def test_a_whole_run_is_one_step() -> None:
    """Except where the sequence ids take one byte more."""
    commands = [
        encoded(CommandSend(producer_id=300, sequence_id=number, num_messages=1))
        for number in range(100, 20_000)
    ]
    steps = []
    at = 0
    while at < len(commands):
        send = parse_send(commands[at])
        assert send is not None
        steps.append(send.sequence_id)
        at += 1 + count_successors(commands, at, send)
    assert steps == [100, 128, 16_384]
