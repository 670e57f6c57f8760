"""Log lookup: finds the log of a call, and checks whether the caller may read or change it.

The rule: AMQP's rights on the queue apply, and are checked here for all calls that read its
messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arneb.http.management.lists.rows import CLIENTS_SCHEMES, NO_VHOST, Row
from arneb.http.management.requests.calls import Call, bad_request, not_authorised, not_found
from arneb.http.management.site import Site
from arneb_amqp.session.rights import DEFAULT_EXCHANGE_NAME
from arneb_amqp.topology.names import SCHEME
from arneb_amqp.topology.topology import Vhost
from arneb_core.access.principals import Kind, Question
from arneb_core.access.rights import Right
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.subscriptions.subscription import Subscription

NUMBER_DIGITS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class FoundLog:
    """One log in a vhost."""

    vhost: Vhost | None
    """None if the namespace belongs to no vhost; only administrators may read such logs."""
    row: Row

    @property
    def subscription(self) -> Subscription:
        """The subscription whose acknowledgements count. Raises 400 if there is none."""
        main = self.row.main
        if main is None:
            raise bad_request("it has no subscription")
        return main


def log_in(site: Site, call: Call, name: str | None = None) -> FoundLog:
    """Return the queue or topic in the path, or the one called ``name``. Raises 404."""
    if name is None and (full_name := call.params.get("topic")) is not None:
        topic = site.core.topics.get(full_name)
        if topic is None or not full_name.startswith(CLIENTS_SCHEMES):
            raise not_found()
        return FoundLog(None, Row(full_name.removeprefix(SCHEME), NO_VHOST, topic))
    vhost = site.vhost_of(call)
    name = call.params["queue"] if name is None else name
    queue = vhost.queues.get(name)
    topic = vhost.queues.foreign_topic(name) if queue is None else queue.topic
    if topic is None:
        raise not_found()
    return FoundLog(vhost, Row(name, vhost.name, topic, queue))


async def expect_right(call: Call, right: Right, name: str, kind: Kind = Kind.QUEUE) -> None:
    """Raise 401 unless the caller has the right in the path's vhost."""
    vhost = call.params["vhost"]
    verdicts = call.caller.verdicts
    question = Question(right, kind, name)
    if not await verdicts.admits(vhost, call.address):
        raise not_authorised("Access refused.")
    if verdicts.may(vhost, question) is None:
        await verdicts.ask(vhost, question)
    if not verdicts.may(vhost, question):
        raise not_authorised("Access refused.")


async def expect_readable(call: Call, log: FoundLog) -> None:
    """Raise 401 unless the caller may read messages there, and 400 for an exclusive queue."""
    if log.vhost is None:
        return  # the route is for administrators
    await expect_right(call, Right.READ, log.row.name)
    queue = log.row.queue
    if queue is not None and queue.owner is not None:
        raise bad_request("it belongs to one connection, which alone may have its messages")


async def expect_publishable(call: Call) -> None:
    """Raise 401 unless the caller may publish straight to queues."""
    await expect_right(call, Right.WRITE, DEFAULT_EXCHANGE_NAME, Kind.EXCHANGE)


def position_in(text: str) -> Position:
    """Return a position from its text, ``ledger:entry``. Raises 400."""
    ledger, colon, entry = text.partition(":")
    if colon and all(
        each.isascii() and each.isdecimal() and len(each) <= NUMBER_DIGITS_MAX
        for each in (ledger, entry)
    ):
        return position_at(int(ledger), int(entry))
    raise bad_request(f"expected a position such as 1:42, got {text[:40]!r}")


def number_in(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a number in a query. Raises 400."""
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 17):
        raise bad_request(f"expected a whole number as {name}, got {text[:40]!r}")
    return int(text)
