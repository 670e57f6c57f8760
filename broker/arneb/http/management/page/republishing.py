"""Republishing: publishes messages of a log once more, as if by their publisher.

The rule: a message goes through an exchange, so bindings, limits and delays apply as for every
other; the original stays where it is. Each message is a commit of its own, and the answer counts
those that no queue took.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from arneb.http.management.page.log_lookup import expect_readable, log_in
from arneb.http.management.page.moving import entries_in, positions_in
from arneb.http.management.requests.calls import Call, Reply, bad_request, not_found
from arneb.http.management.requests.rules import VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb.http.management.topology.messages import by_channel
from arneb_amqp.codec import encode_message
from arneb_amqp.server.operations.connectionless import Fetched, fetched
from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import Origin, read_header

MESSAGES_MAX: Final = 5000
"""Messages in one call, whose 500 entries may be batches."""


async def _republish(site: Site, call: Call) -> Reply:
    log, body = log_in(site, call), call.document()
    await expect_readable(call, log)
    exchange, key = body.given.get("exchange"), body.given.get("routing_key")
    if exchange is not None and body.text("exchange") not in site.vhost_of(call).router.exchanges:
        raise not_found("exchange_not_found", "not_found")
    positions = positions_in(body)
    entries = await entries_in(log.row.topic, positions)
    actor = await site.acting(call)
    done = unrouted = refused = 0
    for entry in entries.values():
        for message in _messages(entry, log.row.name):
            if done + unrouted + refused >= MESSAGES_MAX:
                raise bad_request(f"they are more than {MESSAGES_MAX} messages: choose fewer")
            to = message.route.exchange if exchange is None else body.text("exchange")
            by = message.route.routing_key if key is None else body.text("routing_key")
            # The user who republishes is not the one named there.
            properties = replace(message.properties, user_id=None)
            with by_channel():
                routed = await actor.publish(to, by, properties, message.payload)
            done += routed is True
            unrouted += routed is False
            refused += routed is None
            await site.pause()
    left = len(positions) - len(entries)
    return Reply({"done": done, "unrouted": unrouted, "refused": refused, "left": left})


def _messages(entry: bytes, queue: str) -> Iterable[Fetched]:
    """Return the messages of an entry in AMQP's form. Raises 400 if it cannot be decoded."""
    origin = Origin(read_header(entry).origin)
    if origin is Origin.AMQP:
        return [fetched(entry)]
    try:
        found = codecs()[origin].decode(entry)
    except ValueError as error:
        raise bad_request(f"a message cannot be read: {error}") from None
    return [fetched(encode_message(each, queue)) for each in found]


ROUTES: Final = (Route("POST", "page/messages/:vhost/:queue/republish", VHOST, _republish),)
