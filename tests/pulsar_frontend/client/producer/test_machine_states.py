"""A producer's machine in each of its states: what each input writes, and what whoever sent is
told; and the fates of a message, from where to where."""

from collections.abc import Callable

import pytest
from tests.pulsar_frontend.client.producer.machines import (
    DELAY_S,
    TIMEOUT_S,
    Outcomes,
    attach,
    machine_of,
    receipt_of,
    refusal_of,
    taken_output,
)

from arneb_pulsar.client.errors import ClientClosed, MessageTooLarge, PulsarError
from arneb_pulsar.client.messages import Fate
from arneb_pulsar.wire.proto.pulsar_pb2 import ServerError

BYTES_MAX = 1_000


class Sending:
    """A machine that makes batches, and an application that notes what it is told of each
    message."""

    def __init__(self) -> None:
        self.it = machine_of(batched=True)
        self.outcomes = Outcomes()

    def attach(self) -> None:
        attach(self.it, BYTES_MAX)

    def send(self) -> None:
        self.it.send(self.outcomes.message(), 0.0, 0)

    def send_batch(self) -> None:
        self.it.send_batch([self.outcomes.message(), self.outcomes.message()], 0.0, 0)

    def close_batches(self) -> None:
        self.it.close_batches(0.0, 0)

    def withdraw(self) -> bool:
        return bool(self.outcomes.messages) and self.it.withdraw(self.outcomes.messages[-1])

    def receipt(self, number: int = 0) -> bool:
        return self.it.on_receipt(receipt_of(number, number), 0.0)

    def error(self, code: "ServerError.ValueType") -> PulsarError | None:
        return self.it.on_send_error(refusal_of(0, code), 0.0)

    def written(self) -> str:
        """The first number in each frame."""
        return " ".join(str(send.sequence_id) for send, _ in taken_output(self.it))


def new(_: Sending) -> None: ...


def attached(machine: Sending) -> None:
    machine.attach()


def holding(machine: Sending) -> None:
    machine.attach()
    machine.send()


def pending(machine: Sending) -> None:
    holding(machine)
    machine.close_batches()


def both(machine: Sending) -> None:
    pending(machine)
    machine.send()


def lost(machine: Sending) -> None:
    both(machine)
    machine.it.detach()


def failed(machine: Sending) -> None:
    both(machine)
    machine.it.detach()
    machine.it.fail(ClientClosed("closed"))


STATES: dict[str, Callable[[Sending], None]] = {
    each.__name__: each for each in (new, attached, holding, pending, both, lost, failed)
}
"""``both``: message 0 is sent and has no receipt, message 1 waits in a batch; so they are where the
connection is lost, and where it has failed."""

INPUTS: dict[str, Callable[[Sending], object]] = {
    "attach": Sending.attach,
    "detach": lambda machine: machine.it.detach(),
    "send": Sending.send,
    "send a batch": Sending.send_batch,
    "close batches": Sending.close_batches,
    "withdraw the last": Sending.withdraw,
    "a receipt": Sending.receipt,
    "a receipt of what was not sent": lambda machine: machine.receipt(9),
    "a damaged message": lambda machine: machine.error(ServerError.ChecksumError),
    "not allowed": lambda machine: machine.error(ServerError.NotAllowedError),
    "fenced": lambda machine: machine.error(ServerError.ProducerFenced),
    "a batch's time": lambda machine: machine.it.tick(DELAY_S, 0),
    "time is up": lambda machine: machine.it.tick(TIMEOUT_S, 0),
    "fail": lambda machine: machine.it.fail(ClientClosed("closed")),
}

Row = tuple[str, str]
"""The frames that are written, and what was told."""

CLOSES: dict[str, Row] = {"close batches": ("0", ""), "a batch's time": ("0", "")}
TABLE: dict[str, dict[str, Row]] = {
    "new": {},
    "attached": {"send a batch": ("0", "")},
    "holding": CLOSES
    | {
        "send a batch": ("0 1", ""),
        "time is up": ("", "TimedOut 0"),
        "fail": ("", "ClientClosed 0"),
    },
    "pending": {
        "attach": ("0", ""),
        "send a batch": ("1", ""),
        "a receipt": ("", "stored 0"),
        "a damaged message": ("", "ChecksumRefused 0"),
        "not allowed": ("", "NotAllowed 0"),
        "time is up": ("", "TimedOut 0"),
        "fail": ("", "ClientClosed 0"),
    },
    "both": {
        "attach": ("0", ""),
        "send a batch": ("1 2", ""),
        "close batches": ("1", ""),
        "a receipt": ("", "stored 0"),
        "a damaged message": ("", "ChecksumRefused 0"),
        "not allowed": ("", "NotAllowed 0"),
        "a batch's time": ("1", ""),
        "time is up": ("", "TimedOut 0, TimedOut 1"),
        "fail": ("", "ClientClosed 0, ClientClosed 1"),
    },
    "lost": {
        "attach": ("0", ""),
        "a receipt": ("", "stored 0"),
        "a damaged message": ("", "ChecksumRefused 0"),
        "not allowed": ("", "NotAllowed 0"),
        "time is up": ("", "TimedOut 0, TimedOut 1"),
        "fail": ("", "ClientClosed 0, ClientClosed 1"),
    },
    "failed": {},
}
"""What is not named writes nothing and tells nobody."""


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("state", STATES)
def test_each_input_does_in_each_state_what_it_should(state: str, given: str) -> None:
    machine = Sending()
    STATES[state](machine)
    machine.it.output.clear()
    machine.outcomes.all.clear()
    if (state, given) == ("new", "send"):
        # Nobody knows yet how large a message may be; who sends has waited for a broker.
        with pytest.raises(MessageTooLarge):
            machine.send()
        return
    answer = INPUTS[given](machine)
    written, reported = TABLE[state].get(given, ("", ""))
    assert machine.written() == written
    assert ", ".join(machine.outcomes.all) == reported
    assert machine.it.attached or not written
    if given == "a receipt of what was not sent":
        assert answer is (state not in ("pending", "both", "lost")), (
            "a receipt from the future may only come where nothing waits for one"
        )
    if given == "fenced":
        assert isinstance(answer, PulsarError), "the error must end the whole producer"


MAY_BECOME: dict[Fate, set[Fate]] = {
    Fate.HELD: {Fate.SENT, Fate.FAILED, Fate.WITHDRAWN},
    Fate.SENT: {Fate.STORED, Fate.FAILED},
    Fate.STORED: set(),
    Fate.FAILED: set(),
    Fate.WITHDRAWN: set(),
}
ONE_MESSAGE: dict[Fate, Callable[[Sending], object]] = {
    Fate.HELD: holding,
    Fate.SENT: pending,
    Fate.STORED: lambda machine: (pending(machine), machine.receipt()),
    Fate.FAILED: lambda machine: (pending(machine), machine.it.fail(ClientClosed("closed"))),
    Fate.WITHDRAWN: lambda machine: (
        holding(machine),
        machine.it.withdraw(machine.outcomes.messages[0]),
    ),
}


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("fate", Fate)
def test_a_message_comes_from_each_fate_only_where_it_may(fate: Fate, given: str) -> None:
    machine = Sending()
    ONE_MESSAGE[fate](machine)
    message = machine.outcomes.messages[0]
    assert message.fate is fate
    machine.outcomes.all.clear()
    INPUTS[given](machine)
    assert message.fate is fate or message.fate in MAY_BECOME[fate]
    settled = message.fate in (Fate.STORED, Fate.FAILED) and message.fate is not fate
    assert len([each for each in machine.outcomes.all if each.endswith(" 0")]) == settled
