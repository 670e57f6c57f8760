"""A connection's machine in each of its states: where each input leads, what it writes, and what
those who wait are told."""

from collections.abc import Callable

import pytest
from tests.pulsar_frontend.client.connection.machines import (
    HELLO,
    Attached,
    made,
    message,
    opened,
    sent,
)

from arneb_pulsar.client.connection.machine import (
    GRACE_S,
    KEEP_ALIVE_S,
    MOVES,
    ConnectionMachine,
    State,
)
from arneb_pulsar.client.errors import Disconnected
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.commands import NO_REQUEST, PING, PONG
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandFlow, CommandPartitionedTopicMetadata

LATER_S = KEEP_ALIVE_S + GRACE_S + 1

Outcomes = list[str]


def closed() -> ConnectionMachine:
    machine = opened()
    machine.lost(Disconnected("gone"))
    return machine


STATES: dict[State, Callable[[], ConnectionMachine]] = {
    State.HANDSHAKE: made,
    State.OPEN: opened,
    State.CLOSED: closed,
}


def ask(machine: ConnectionMachine, outcomes: Outcomes) -> int:
    return machine.request(
        CommandPartitionedTopicMetadata(topic="t"),
        "of t",
        lambda reply, error: outcomes.append(type(reply or error).__name__),
    )


def ask_and_answer(machine: ConnectionMachine, outcomes: Outcomes) -> None:
    machine.receive(commands.partitions(ask(machine, outcomes), 1), 0.0)


def ask_and_refuse(machine: ConnectionMachine, outcomes: Outcomes) -> None:
    machine.receive(commands.error(ask(machine, outcomes), pb.TopicNotFound, "none"), 0.0)


def ask_and_lose(machine: ConnectionMachine, outcomes: Outcomes) -> None:
    ask(machine, outcomes)
    machine.lost(Disconnected("gone"))


def forget(machine: ConnectionMachine, outcomes: Outcomes) -> None:
    number = ask(machine, outcomes)
    machine.forget(number)
    machine.receive(commands.partitions(number, 1), 0.0)


def ping_and_pong(machine: ConnectionMachine, outcomes: Outcomes) -> None:
    machine.ping(lambda reply, error: outcomes.append(type(reply or error).__name__))
    machine.receive(PONG, 0.0)


Input = Callable[[ConnectionMachine, Outcomes], object]
INPUTS: dict[str, Input] = {
    "connected": lambda machine, _: machine.receive(HELLO, 0.0),
    "asked for a sign of life": lambda machine, _: machine.receive(PING, 0.0),
    "a sign of life": lambda machine, _: machine.receive(PONG, 0.0),
    "a message": lambda machine, _: machine.receive(message(7, b"x"), 0.0),
    "an error for all": lambda machine, _: machine.receive(
        commands.error(NO_REQUEST, pb.ServiceNotReady, "no"), 0.0
    ),
    "an error for another": lambda machine, _: machine.receive(
        commands.error(99, pb.ServiceNotReady, "no"), 0.0
    ),
    "no protocol": lambda machine, _: machine.receive(b"\xff" * 40, 0.0),
    "lost": lambda machine, _: machine.lost(Disconnected("gone")),
    "silence": lambda machine, _: machine.tick(LATER_S),
    "a command": lambda machine, _: machine.send(CommandFlow(consumer_id=1, messagePermits=1)),
    "a request, answered": ask_and_answer,
    "a request, refused": ask_and_refuse,
    "a request, lost": ask_and_lose,
    "a request, forgotten": forget,
    "a ping": ping_and_pong,
}

Row = tuple[State, str, str]
"""Where it leads, what is written, and what whoever waits is told."""

WAITS: dict[str, Row] = {
    "connected": (State.OPEN, "", ""),
    "asked for a sign of life": (State.HANDSHAKE, "PONG", ""),
    "a sign of life": (State.HANDSHAKE, "", ""),
    "a message": (State.HANDSHAKE, "", "7"),
    "an error for all": (State.CLOSED, "", "ServiceNotReady"),
    "an error for another": (State.CLOSED, "", "ServiceNotReady"),
    "no protocol": (State.CLOSED, "", "Disconnected"),
    "lost": (State.CLOSED, "", "Disconnected"),
    "silence": (State.HANDSHAKE, "", ""),
    "a command": (State.HANDSHAKE, "FLOW", ""),
    "a request, answered": (
        State.HANDSHAKE,
        "PARTITIONED_METADATA",
        "CommandPartitionedTopicMetadataResponse",
    ),
    "a request, refused": (State.HANDSHAKE, "PARTITIONED_METADATA", "TopicNotFound"),
    "a request, lost": (State.CLOSED, "PARTITIONED_METADATA", "Disconnected Disconnected"),
    "a request, forgotten": (State.HANDSHAKE, "PARTITIONED_METADATA", ""),
    "a ping": (State.HANDSHAKE, "PING", "CommandPong"),
}
TABLE: dict[State, dict[str, Row]] = {
    State.HANDSHAKE: WAITS,
    State.OPEN: {
        name: (State.OPEN if to is State.HANDSHAKE else to, written, calls)
        for name, (to, written, calls) in WAITS.items()
    }
    | {"an error for another": (State.OPEN, "", ""), "silence": (State.OPEN, "PING", "")},
    State.CLOSED: dict.fromkeys(WAITS, (State.CLOSED, "", ""))
    | {
        "a command": (State.CLOSED, "FLOW", ""),
        "a request, answered": (State.CLOSED, "", "Disconnected"),
        "a request, refused": (State.CLOSED, "", "Disconnected"),
        "a request, lost": (State.CLOSED, "", "Disconnected"),
        "a request, forgotten": (State.CLOSED, "", "Disconnected"),
        "a ping": (State.CLOSED, "", "Disconnected"),
    },
}


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("state", State)
def test_each_input_leads_from_each_state_where_it_should(state: State, given: str) -> None:
    machine = STATES[state]()
    machine.output.clear()
    attached, outcomes = Attached(), Outcomes()
    if state is not State.CLOSED:
        machine.receivers[1] = attached
    INPUTS[given](machine, outcomes)
    to, written, expected = TABLE[state][given]
    assert machine.state is to
    assert to is state or to in MOVES[state]
    names = [pb.BaseCommand.Type.Name(each.type) for each in sent(machine)]
    assert " ".join(names) == written
    seen = [str(each[0]) if isinstance(each, tuple) else each.__name__ for each in attached.seen]
    assert " ".join([*outcomes, *seen]) == expected
    assert (machine.failure is None) == (machine.state is not State.CLOSED)
