"""A search in each of its states, and against brokers that send it anywhere."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.client.connection.dialling import Address
from arneb_pulsar.client.errors import PulsarError, ServiceNotReady, UnexpectedAnswer
from arneb_pulsar.client.lookup.search import MOVES, REDIRECTS_MAX, BrokerAddress, Search, State
from arneb_pulsar.names import parse_topic
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandLookupTopicResponse

SERVICE = Address("service", 6650, False)
HERE = "pulsar://here:1"
SECURE = "pulsar+ssl://here:2"


def search(service: Address = SERVICE) -> Search:
    return Search(parse_topic("orders"), service, "outside")


def reply(
    *, found: bool, url: str = HERE, tls_url: str = "", proxied: bool = False, sure: bool = False
) -> CommandLookupTopicResponse:
    kind = CommandLookupTopicResponse
    return kind(
        request_id=1,
        response=kind.Connect if found else kind.Redirect,
        brokerServiceUrl=url,
        brokerServiceUrlTls=tls_url,
        proxy_through_service_url=proxied,
        authoritative=sure,
    )


def reached(state: State) -> Search:
    made = search()
    if state is State.FOUND:
        made.answer(reply(found=True))
    elif state is State.FAILED:
        with pytest.raises(UnexpectedAnswer):
            made.answer(reply(found=True, url="nonsense"))
    assert made.state is state
    return made


INPUTS: dict[str, Callable[[Search], None]] = {
    "found": lambda made: made.answer(reply(found=True)),
    "sent on": lambda made: made.answer(reply(found=False)),
    "no address": lambda made: made.answer(reply(found=False, url="nonsense")),
}
LEADS = {"found": State.FOUND, "sent on": State.ASKING, "no address": State.FAILED}


@pytest.mark.parametrize("given", INPUTS)
def test_each_answer_leads_where_it_should(given: str) -> None:
    made = reached(State.ASKING)
    if given == "no address":
        with pytest.raises(UnexpectedAnswer, match="'nonsense'"):
            INPUTS[given](made)
    else:
        INPUTS[given](made)
        assert made.broker == BrokerAddress(Address("here", 1, False))
    assert made.state is LEADS[given]
    assert made.state in MOVES[State.ASKING]


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("state", [State.FOUND, State.FAILED])
def test_a_search_that_has_ended_neither_asks_nor_is_answered(state: State, given: str) -> None:
    made = reached(state)
    before = made.broker
    with pytest.raises(AssertionError):
        made.question()
    with pytest.raises(AssertionError):
        INPUTS[given](made)
    assert (made.state, made.broker) == (state, before)


def test_a_redirected_lookup_says_whether_the_next_broker_decides() -> None:
    made = search()
    assert made.question().advertised_listener_name == "outside"
    for sure in (True, False):
        made.answer(reply(found=False, sure=sure))
        assert made.question().authoritative is sure


def test_a_client_that_speaks_tls_is_sent_where_tls_is_spoken() -> None:
    made = search(Address("service", 6651, True))
    made.answer(reply(found=True, tls_url=SECURE, proxied=True))
    assert made.broker == BrokerAddress(Address("here", 2, True), Address("service", 6651, True))


def test_a_broker_that_names_no_other_means_itself() -> None:
    made = search()
    made.answer(reply(found=False))
    made.answer(reply(found=True, url=""))
    assert made.broker == BrokerAddress(Address("here", 1, False))


@given(redirects=st.integers(0, 2 * REDIRECTS_MAX), data=st.data())
def test_it_ends_whatever_brokers_say(redirects: int, data: st.DataObject) -> None:
    made, asked = search(), 0
    ends: list[type[PulsarError]] = []
    while made.state is State.ASKING:
        made.question()
        asked += 1
        url = data.draw(st.sampled_from([HERE, "pulsar://there:3", ""]))
        try:
            made.answer(reply(found=asked > redirects, url=url))
        except ServiceNotReady as error:
            ends.append(type(error))
    assert asked == min(redirects + 1, REDIRECTS_MAX)
    assert (made.state is State.FAILED) == (redirects >= REDIRECTS_MAX) == bool(ends)
