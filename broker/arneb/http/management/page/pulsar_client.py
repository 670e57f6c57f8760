"""One Pulsar connection: shows its producers and consumers, and closes it or a consumer.

The rule: a user without a monitoring tag sees only its own connections; only an administrator
closes others'. A consumer that is closed here may subscribe again, as after an unload.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from arneb.http.management.requests.calls import (
    DONE,
    Call,
    Document,
    Reply,
    not_authorised,
    not_found,
)
from arneb.http.management.requests.rules import USERS, is_administrator, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site

if TYPE_CHECKING:
    from arneb_pulsar.services.clients.connections import OpenConnection
    from arneb_pulsar.services.clients.consumers import ClientConsumer
    from arneb_pulsar.services.clients.producers import ProducerClaim
    from arneb_pulsar.services.context import BrokerContext

PARTS_MAX: Final = 200
"""Producers, and consumers, in one answer, which also has their total number."""

NOT_OWN: Final = "User not authorised to access object"
NUMBER_DIGITS_MAX: Final = 15


def context_of(site: Site) -> "BrokerContext":
    """Return the Pulsar broker context. Raises 404 if that protocol is not served."""
    if site.pulsar is None:
        raise not_found()
    return site.pulsar


def byte_rates(site: Site, found: "OpenConnection") -> Mapping[str, Mapping[str, Any]]:
    """Return a connection's byte rates, and sample it from now on."""
    context, connection = context_of(site), found.connection

    def read() -> dict[str, int] | None:
        if context.connections.get(found.number) is None:
            return None
        return {"received": connection.received_bytes, "sent": connection.sent_bytes}

    counters = {"received": connection.received_bytes, "sent": connection.sent_bytes}
    return site.rates.details(("pulsar connection", found.number), counters, read)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX):
        raise not_found()
    return int(text)


def _found(site: Site, call: Call) -> "OpenConnection":
    """Return the connection in the path. Raises 404, or 401 if the caller may not see it."""
    found = context_of(site).connections.get(_number(call.params["connection"]))
    if found is None:
        raise not_found()
    if not is_monitor(call.caller) and found.connection.caller.role != call.caller.name:
        raise not_authorised(NOT_OWN)
    return found


def _expect_own(call: Call, found: "OpenConnection") -> None:
    if not is_administrator(call.caller) and found.connection.caller.role != call.caller.name:
        raise not_authorised(NOT_OWN)


async def _look(site: Site, call: Call) -> Reply:
    found, context = _found(site, call), context_of(site)
    connection = found.connection
    producers = [each for each in context.producers.all() if each.holder.connection is connection]
    await site.pause()
    consumers = [each for each in context.consumers.all() if each.connection is connection]
    rates = byte_rates(site, found)
    return Reply(
        {
            "number": found.number,
            "address": connection.address,
            "role": connection.caller.role,
            "original": connection.caller.original,
            "client": connection.client_name,
            "secured": connection.is_secured,
            "is_full": connection.is_full,
            "opened_ms": found.opened_ms,
            "received": rates["received"]["rate"],
            "sent": rates["sent"]["rate"],
            "received_bytes": connection.received_bytes,
            "sent_bytes": connection.sent_bytes,
            "producers_total": len(producers),
            "producers": [_producer(each) for each in producers[:PARTS_MAX]],
            "consumers_total": len(consumers),
            "consumers": [_consumer(each) for each in consumers[:PARTS_MAX]],
        }
    )


def _producer(of: "ProducerClaim") -> Document:
    holder = of.holder
    return {
        "id": holder.producer_id,
        "name": of.name,
        "topic": holder.topic.name,
        "messages": holder.counts.messages,
        "bytes": holder.counts.bytes,
        "since": holder.since,
    }


def _consumer(of: "ClientConsumer") -> Document:
    """Return one consumer's document; ``permits`` is how many more messages it would take now."""
    return {
        "key": of.key,
        "name": of.consumer.name,
        "topic": of.topic.name,
        "subscription": of.subscription.name,
        "in_flight": of.consumer.in_flight,
        "permits": max(0, of.consumer.permits),
        "messages": of.consumer.delivered_messages_total,
        "bytes": of.counts.bytes,
        "since": of.since,
    }


async def _close(site: Site, call: Call) -> Reply:
    found = _found(site, call)
    _expect_own(call, found)
    found.connection.kill()
    return DONE


async def _close_consumer(site: Site, call: Call) -> Reply:
    found = _found(site, call)
    _expect_own(call, found)
    key = _number(call.params["consumer"])
    for each in context_of(site).consumers.all():
        if each.connection is found.connection and each.key == key:
            each.disconnect()
            return DONE
    raise not_found()


_ROOT: Final = "page/pulsar/connections/:connection"

ROUTES: Final = (
    Route("GET", _ROOT, USERS, _look),
    Route("DELETE", _ROOT, USERS, _close),
    Route("DELETE", f"{_ROOT}/consumers/:consumer", USERS, _close_consumer),
)
