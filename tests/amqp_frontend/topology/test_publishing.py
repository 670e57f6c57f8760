"""One message without a channel: it is routed, copied, refused and delayed as a client's is."""

import pytest
from tests.amqp_frontend.topology.conftest import Opener, RunningVhost

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.publishing import Published, publish
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import content_start
from arneb_amqp.wire.tables import array, long, longstr
from arneb_core.api.entries.entry import EntryHeader, read_header

ME = ConnectionId(1)


async def published(
    place: RunningVhost, admission: Admission, exchange: str, key: str, properties: Properties
) -> Published:
    body = compose(ChannelId(1), encode_properties(properties), b"x")
    return await publish(place.vhost, exchange, key, properties, body, admission)


def parts(entry: bytes) -> tuple[EntryHeader, Properties, bytes]:
    start = content_start(entry)
    properties = decode_properties(properties_of(entry, start))
    return read_header(entry), properties, payload_of(entry, start)


@pytest.mark.real_time
async def test_a_blind_copy_is_not_named_in_what_is_stored(broker: Opener) -> None:
    async with broker() as place:
        topics = [(await place.declare(name)).topic for name in ("a", "b")]
        admission = Admission()
        headers = {"BCC": array([longstr("b")]), "kept": long(1)}
        given = Properties(headers=headers, priority=3, expiration="0")
        assert (await published(place, admission, "", "a", given)).admitted
        appends = admission.close()
        assert [*appends] == topics
        for entries in appends.values():
            ((header, properties, payload),) = map(parts, entries)
            assert (properties.headers, payload) == ({"kept": long(1)}, b"x")
            assert header.priority == 3
            assert header.expires_at_ms > header.publish_time_ms


@pytest.mark.real_time
async def test_a_full_queue_refuses_and_the_others_take_it(broker: Opener) -> None:
    async with broker() as place:
        full = {"x-max-length": long(0), "x-overflow": longstr("reject-publish")}
        await place.declare("full", arguments=full)
        other = await place.declare("other")
        admission = Admission()
        given = Properties(headers={"CC": array([longstr("other")])})
        assert not (await published(place, admission, "", "full", given)).admitted
        assert [*admission.close()] == [other.topic]


@pytest.mark.real_time
async def test_a_delayed_message_goes_to_the_exchange_and_to_no_queue_yet(broker: Opener) -> None:
    async with broker() as place:
        await place.declare("q")
        delays = Exchange("e", "x-delayed-message", arguments={"x-delayed-type": longstr("direct")})
        async with place.topology.changing():
            await place.vhost.exchanges.declare(delays)
            await place.vhost.exchanges.bind(Binding("e", "q", "k"), ME)
        admission = Admission()
        given = Properties(headers={"x-delay": long(60_000)})
        found = await published(place, admission, "e", "k", given)
        assert not admission.close()
        ((topic, entry),) = found.delayed
        assert topic is place.vhost.delayed_exchanges.topic("e")
        header, _, payload = parts(entry)
        assert (header.deliver_at_ms - header.publish_time_ms, payload) == (60_000, b"x")


@pytest.mark.real_time
async def test_what_no_client_may_publish_is_refused(broker: Opener) -> None:
    async with broker() as place:
        with pytest.raises(AmqpError, match="expiration"):
            await published(place, Admission(), "", "q", Properties(expiration="soon"))
