"""A search: finds a topic's broker by asking one broker after the other.

The rule: a search asks until a broker says that the topic is its own, or names no other; then it
ends. The number of redirects is bounded, so brokers cannot send it round in a circle. Pure.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from arneb_pulsar.client.connection.dialling import Address, parse_address
from arneb_pulsar.client.errors import InvalidUrl, PulsarError, ServiceNotReady, UnexpectedAnswer
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandLookupTopic, CommandLookupTopicResponse

REDIRECTS_MAX: Final = 20
"""As in the official clients."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a topic is served."""

    address: Address
    through: Address | None = None
    """A proxy to dial instead."""


class State(Enum):
    """The state of a search."""

    ASKING = auto()
    """:attr:`Search.broker` is to be asked, or was and has not answered."""
    FOUND = auto()
    """:attr:`Search.broker` has the topic."""
    FAILED = auto()


MOVES: Final = {
    State.ASKING: frozenset({State.ASKING, State.FOUND, State.FAILED}),
    State.FOUND: frozenset[State](),
    State.FAILED: frozenset[State](),
}
"""The allowed transitions."""


class Search:
    """One search for one topic, by the binary protocol."""

    def __init__(self, topic: TopicName, service: Address, listener: str | None) -> None:
        """``service`` is asked first; ``listener`` is under which name of brokers the client
        reaches them."""
        self.state = State.ASKING
        self.broker = BrokerAddress(service)
        self.what = f"lookup of {topic}"
        self._topic = topic
        self._service = service
        self._listener = listener
        self._authoritative = False
        self._redirects = 0

    def __repr__(self) -> str:
        return f"<Search of {self._topic} {self.state.name}, {self.broker.address}>"

    def question(self) -> CommandLookupTopic:
        """Return the question to send."""
        assert self.state is State.ASKING, self
        return CommandLookupTopic(
            topic=str(self._topic),
            authoritative=self._authoritative,
            advertised_listener_name=self._listener,
        )

    def answer(self, reply: CommandLookupTopicResponse) -> None:
        """Handle the answer of the broker that was asked. Raises :class:`UnexpectedAnswer` for an
        invalid address, and :class:`ServiceNotReady` after too many brokers."""
        tls = self._service.tls
        url = reply.brokerServiceUrlTls if tls else reply.brokerServiceUrl
        try:
            # A broker that knows no other name of itself answers with none.
            address = parse_address(url) if url else self.broker.address
        except InvalidUrl as error:
            text = f"{self.what}: expected a broker's address, got {url!r}"
            raise self._failed(UnexpectedAnswer(text)) from error
        through = self._service if reply.proxy_through_service_url else None
        if reply.response != CommandLookupTopicResponse.Connect:
            self._redirects += 1
            if self._redirects == REDIRECTS_MAX:
                text = f"{self.what}: redirected {REDIRECTS_MAX} times"
                raise self._failed(ServiceNotReady(text))
            self._authoritative = reply.authoritative
            self._move(State.ASKING)
        else:
            self._move(State.FOUND)
        self.broker = BrokerAddress(address, through)

    def _failed(self, error: PulsarError) -> PulsarError:
        self._move(State.FAILED)
        return error

    def _move(self, state: State) -> None:
        assert state in MOVES[self.state], (self, state)
        self.state = state
