"""Transactions of both protocols: which are open, since when, and what they hold.

The rule: an AMQP transaction belongs to a channel and ends with it; a Pulsar transaction belongs to
the coordinator, and an administrator may abort it as the coordinator does after its timeout.
"""

from typing import TYPE_CHECKING, Final

from arneb.http.management.page.pulsar_client import context_of
from arneb.http.management.requests.calls import (
    DONE,
    Call,
    Document,
    Refused,
    Reply,
    bad_request,
    not_found,
)
from arneb.http.management.requests.rules import ADMINISTRATOR, USERS, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site

if TYPE_CHECKING:
    from arneb_pulsar.services.transactions.open_transaction import OpenTransaction

SHOWN_MAX: Final = 200
"""Transactions of each protocol in one answer, which also has their total number."""

NAMED_MAX: Final = 5
"""Topics named of one transaction, which may have a thousand."""

LOOKED_PER_TURN: Final = 200
NUMBER_DIGITS_MAX: Final = 19


async def _list(site: Site, call: Call) -> Reply:
    amqp = await _of_channels(site, call)
    # Oldest first: those are likely forgotten.
    pulsar = sorted(
        [
            each
            for each in ([] if site.pulsar is None else site.pulsar.transactions.open)
            if is_monitor(call.caller) or each.opened.owner[0] == call.caller.name
        ],
        key=lambda each: each.opened.at_ms,
    )
    return Reply(
        {
            "amqp_total": len(amqp),
            "amqp": amqp[:SHOWN_MAX],
            "pulsar_total": len(pulsar),
            "pulsar": [_shown(each) for each in pulsar[:SHOWN_MAX]],
        }
    )


async def _of_channels(site: Site, call: Call) -> list[Document]:
    """Return the channels in transaction mode, those with the largest transactions first."""
    found: list[Document] = []
    for number, each in enumerate(site.roster.connections(), 1):
        if number % LOOKED_PER_TURN == 0:
            await site.pause()
        if not is_monitor(call.caller) and each.user != call.caller.name:
            continue
        found += [
            {
                "name": f"{each.name} ({channel.number})",
                "connection": each.name,
                "user": each.user,
                "vhost": each.vhost,
                "messages": channel.uncommitted,
                "acknowledgements": channel.acks_uncommitted,
            }
            for channel in site.roster.channels(each.id)
            if channel.transactional
        ]
    found.sort(key=lambda each: -int(each["messages"]) - int(each["acknowledgements"]))
    return found


def _shown(of: "OpenTransaction") -> Document:
    topics = sorted({each.topic.name for each in of.sends.values()} | of.partitions)
    return {
        "id": str(of.id),
        "number": str(of.id.least_bits),
        "state": of.state.value,
        "user": of.opened.owner[0],
        "opened_ms": of.opened.at_ms,
        "until_ms": of.opened.until_ms,
        "topics": topics[:NAMED_MAX],
        "topics_total": len(topics),
        "entries": sum(len(each.positions) for each in of.sends.values()),
        "bytes": of.sent_bytes,
        "acknowledgements": of.acked,
    }


async def _abort(site: Site, call: Call) -> Reply:
    from arneb_pulsar.session.errors import RequestRefused
    from arneb_pulsar.transactions.states import COORDINATOR, TransactionId

    text = call.params["transaction"]
    if not (text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX):
        raise bad_request(f"expected the number of a transaction, got {text[:40]!r}")
    wanted, transactions = TransactionId(COORDINATOR, int(text)), context_of(site).transactions
    if all(each.id != wanted for each in transactions.open):
        raise not_found()
    try:
        await transactions.end(wanted, None, commit=False)
    except RequestRefused as refused:
        raise Refused(409, "conflict", refused.failure.text) from None
    return DONE


ROUTES: Final = (
    Route("GET", "page/transactions", USERS, _list),
    Route("DELETE", "page/pulsar/transactions/:transaction", ADMINISTRATOR, _abort),
)
